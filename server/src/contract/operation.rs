//! One operation: a method on a path, what it takes and what it may answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::answer::{Answer, Link, meaning};
use super::schema::{Schemas, Shape};

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// A method on a path.
#[derive(Clone)]
pub(crate) struct Operation {
    method: &'static str,
    path: String,
    id: String,
    summary: String,
    description: &'static str,
    parameters: Vec<Value>,
    query: Option<Shape>,
    body: Option<(&'static str, Shape)>,
    answers: BTreeMap<u16, Answer>,
    needs_session: bool,
}

impl Operation {
    pub(crate) fn new(
        method: &'static str,
        path: impl Into<String>,
        id: impl Into<String>,
        summary: &str,
    ) -> Self {
        let (path, id, summary) = (path.into(), id.into(), summary.into());
        let (parameters, answers) = (Vec::new(), BTreeMap::new());
        let (query, body, description, needs_session) = (None, None, "", false);
        Self {
            method,
            path,
            id,
            summary,
            description,
            parameters,
            query,
            body,
            answers,
            needs_session,
        }
    }

    /// More than fits the summary.
    pub(crate) fn about(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// The same on another path, as are those that can be asked next.
    pub(crate) fn also(&self, path: impl Into<String>, id_suffix: &str, how: &str) -> Self {
        let summary = format!("{}, {how}", self.summary);
        let mut also = Self { path: path.into(), summary, ..self.clone() };
        also.id.push_str(id_suffix);
        also.links().for_each(|link| link.to.push_str(id_suffix));
        also
    }

    /// A name in the path.
    pub(crate) fn in_path(self, name: &str, shape: Value, about: &str) -> Self {
        self.parameter("path", name, shape, true, about)
    }

    /// One parameter of the query.
    pub(crate) fn in_query(self, name: &str, shape: Value, is_required: bool, about: &str) -> Self {
        self.parameter("query", name, shape, is_required, about)
    }

    /// A header that is looked at.
    pub(crate) fn header(self, name: &str, shape: Value, about: &str) -> Self {
        self.parameter("header", name, shape, false, about)
    }

    fn parameter(
        mut self,
        place: &str,
        name: &str,
        shape: Value,
        is_required: bool,
        about: &str,
    ) -> Self {
        self.parameters.push(json!({
            "in": place, "name": name, "required": is_required, "schema": shape, "description": about,
        }));
        self
    }

    /// The members of `T` are the parameters of the query.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(Shape::of::<T>());
        self
    }

    /// The body is this as JSON.
    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some((JSON, Shape::of::<T>()));
        self
    }

    /// The body is bytes of any kind.
    pub(crate) fn body_bytes(mut self) -> Self {
        let bytes = json!({"type": "string", "format": "binary"});
        self.body = Some((BYTES, Shape::Given(bytes)));
        self
    }

    /// Only whoever has a session may ask.
    pub(crate) fn in_session(mut self) -> Self {
        self.needs_session = true;
        self
    }

    /// The body is JSON of a shape no type has.
    pub(crate) fn body_like(mut self, shape: Value) -> Self {
        self.body = Some((JSON, Shape::Given(shape)));
        self
    }

    /// All its JSON is of this kind.
    pub(crate) fn spoken_as(mut self, kind: &'static str) -> Self {
        let shapes = self.answers.values_mut().flat_map(|answer| &mut answer.shapes);
        shapes.chain(&mut self.body).filter(|(is, _)| *is == JSON).for_each(|(is, _)| *is = kind);
        self
    }

    /// It may be answered with this as JSON. A second shape for the same status is another possibility.
    pub(crate) fn answer<T: JsonSchema>(self, status: u16, about: &str) -> Self {
        self.answer_with(status, about, Some((JSON, Shape::of::<T>())))
    }

    /// It may be answered with text of some kind.
    pub(crate) fn answer_text(self, status: u16, kind: &'static str, about: &str) -> Self {
        self.answer_with(status, about, Some((kind, Shape::Given(json!({"type": "string"})))))
    }

    /// It may be answered with bytes of any kind.
    pub(crate) fn answer_bytes(self, status: u16, about: &str) -> Self {
        self.answer_with(status, about, Some(("*/*", Shape::Given(json!({})))))
    }

    /// It may be answered with a stream of events whose data is one of these, as JSON.
    pub(crate) fn answer_events<T: JsonSchema, U: JsonSchema>(
        self,
        status: u16,
        about: &str,
    ) -> Self {
        self.answer_with(status, about, Some(("text/event-stream", Shape::events::<T, U>())))
    }

    /// It may be answered with a JSON object of no fixed shape.
    pub(crate) fn answer_object(self, status: u16, about: &str) -> Self {
        self.answer_with(status, about, Some((JSON, Shape::Given(json!({"type": "object"})))))
    }

    /// It may be answered without a body.
    pub(crate) fn answer_empty(self, status: u16, about: &str) -> Self {
        self.answer_with(status, about, None)
    }

    /// It may be refused with these statuses, all in the dialect's error shape.
    pub(crate) fn refuse<T: JsonSchema>(self, statuses: &[u16]) -> Self {
        statuses.iter().fold(self, |this, status| this.answer::<T>(*status, meaning(*status)))
    }

    /// It is for those who may: on a server that asks everybody who they are, others are refused in this shape.
    pub(crate) fn guarded<T: JsonSchema>(self) -> Self {
        let missing =
            [401, 403, 429].into_iter().filter(|status| !self.answers.contains_key(status));
        let missing: Vec<_> = missing.collect();
        self.refuse::<T>(&missing)
    }

    /// Answers with this status have this header.
    pub(crate) fn answer_header(mut self, status: u16, name: &'static str) -> Self {
        self.answers.entry(status).and_modify(|answer| answer.headers.push(name));
        self
    }

    /// After this answer the operation `to` can be asked, with these parameters out of it.
    pub(crate) fn next(mut self, status: u16, to: &str, parameters: &[(&str, &str)]) -> Self {
        let parameters = parameters.iter().map(|(name, from)| ((*name).into(), (*from).into()));
        let link = Link { to: to.into(), parameters: parameters.collect(), body: None };
        self.answers.entry(status).and_modify(|answer| answer.links.push(link));
        self
    }

    /// The same, with a body out of it.
    pub(crate) fn next_with(
        self,
        status: u16,
        to: &str,
        parameters: &[(&str, &str)],
        body: Value,
    ) -> Self {
        let mut this = self.next(status, to, parameters);
        this.links().filter(|link| link.to == to).for_each(|link| link.body = Some(body.clone()));
        this
    }

    /// Whatever is asked next is asked with the same name in its path.
    pub(crate) fn next_in_same(mut self, name: &str) -> Self {
        let from = format!("$request.path.{name}");
        self.links().for_each(|link| _ = link.parameters.insert(name.into(), from.clone().into()));
        self
    }

    fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        self.answers.values_mut().flat_map(|answer| &mut answer.links)
    }

    fn answer_with(
        mut self,
        status: u16,
        about: &str,
        shape: Option<(&'static str, Shape)>,
    ) -> Self {
        self.answers.entry(status).or_insert_with(|| Answer::new(status)).or(about, shape);
        self
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn method(&self) -> &'static str {
        self.method
    }

    pub(super) fn write(self, tag: &str, schemas: &mut Schemas) -> Value {
        let mut parameters = self.parameters;
        let members = self.query.iter().flat_map(|shape| schemas.members(shape));
        parameters.extend(members.collect::<Vec<_>>().into_iter().map(query_parameter));
        parameters.push(json!({"$ref": "#/components/parameters/RequestId"}));
        let answers = self.answers.into_iter();
        let answers: Map<_, _> =
            answers.map(|(status, answer)| (status.to_string(), answer.write(schemas))).collect();
        let mut written = json!({
            "operationId": self.id, "summary": self.summary, "tags": [tag],
            "parameters": parameters, "responses": answers,
        });
        if !self.description.is_empty() {
            written["description"] = self.description.into();
        }
        if self.needs_session {
            written["security"] = json!([{"session": []}, {"cookie": []}]);
        }
        if let Some((kind, shape)) = &self.body {
            let schema = schemas.request(shape);
            // No bytes are bytes too.
            let is_required = *kind != BYTES;
            written["requestBody"] =
                json!({"required": is_required, "content": {*kind: {"schema": schema}}});
        }
        written
    }
}

fn query_parameter((name, mut schema, is_required): (String, Value, bool)) -> Value {
    let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    // In a query nothing is null: it is there or it is not.
    if let Some(kinds) = schema.get("type").and_then(Value::as_array) {
        schema["type"] = kinds.iter().find(|kind| *kind != "null").cloned().unwrap_or_default();
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    json!({
        "in": "query", "name": name, "required": is_required, "schema": schema,
        "description": about.unwrap_or_default(),
    })
}

/// How a session is shown.
pub(super) fn sessions() -> Value {
    json!({
        "apiKey": {
            "type": "http", "scheme": "bearer",
            "description": "An API key, `lh_ID_SECRET`, or a token of an issuer that the auth file names, \
                            needed where the server has an auth file. Without it, or with a wrong \
                one, the answer is 401; without the right, 403.",
        },
        "session": {"type": "http", "scheme": "bearer", "description": "The id of a session of files."},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "hengdang_session", "description": "The same."},
    })
}

/// What every request may carry.
pub(super) fn request_id() -> Value {
    json!({
        "in": "header", "name": "X-Request-ID", "required": false, "schema": {"type": "string"},
        "description": "Comes back with the answer, and is in the log.",
    })
}
