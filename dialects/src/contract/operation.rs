//! One operation: a method on a path, with its parameters, its body and its possible responses.

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

    /// Sets a description, for details that do not fit into the summary.
    pub(crate) fn about(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Returns the same operation on another path. Its follow-up operations get the same suffix.
    pub(crate) fn also(&self, path: impl Into<String>, id_suffix: &str, how: &str) -> Self {
        let summary = format!("{}, {how}", self.summary);
        let mut also = Self { path: path.into(), summary, ..self.clone() };
        also.id.push_str(id_suffix);
        also.links().for_each(|link| link.to.push_str(id_suffix));
        also
    }

    /// Adds a parameter in the path.
    pub(crate) fn in_path(self, name: &str, shape: Value, about: &str) -> Self {
        self.parameter("path", name, shape, true, about)
    }

    /// Adds a query parameter.
    pub(crate) fn in_query(self, name: &str, shape: Value, is_required: bool, about: &str) -> Self {
        self.parameter("query", name, shape, is_required, about)
    }

    /// Adds a request header.
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

    /// Adds the members of `T` as query parameters.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(Shape::of::<T>());
        self
    }

    /// Sets a JSON body of this type.
    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some((JSON, Shape::of::<T>()));
        self
    }

    /// Sets a body of arbitrary bytes.
    pub(crate) fn body_bytes(mut self) -> Self {
        let bytes = json!({"type": "string", "format": "binary"});
        self.body = Some((BYTES, Shape::Given(bytes)));
        self
    }

    /// Requires a session.
    pub(crate) fn in_session(mut self) -> Self {
        self.needs_session = true;
        self
    }

    /// Sets a JSON body with a shape that is not derived from a type.
    pub(crate) fn body_like(mut self, shape: Value) -> Self {
        self.body = Some((JSON, Shape::Given(shape)));
        self
    }

    /// Changes the media type of all JSON bodies.
    pub(crate) fn spoken_as(mut self, kind: &'static str) -> Self {
        let shapes = self.answers.values_mut().flat_map(|answer| &mut answer.shapes);
        shapes.chain(&mut self.body).filter(|(is, _)| *is == JSON).for_each(|(is, _)| *is = kind);
        self
    }

    /// Adds a response with a JSON body. A second shape for the same status is an alternative.
    pub(crate) fn answer<T: JsonSchema>(self, status: u16, about: &str) -> Self {
        self.answer_with(status, about, Some((JSON, Shape::of::<T>())))
    }

    /// Adds a response with a text body of this media type.
    pub(crate) fn answer_text(self, status: u16, kind: &'static str, about: &str) -> Self {
        self.answer_with(status, about, Some((kind, Shape::Given(json!({"type": "string"})))))
    }

    /// Adds a response with a body of arbitrary bytes.
    pub(crate) fn answer_bytes(self, status: u16, about: &str) -> Self {
        self.answer_with(status, about, Some(("*/*", Shape::Given(json!({})))))
    }

    /// Adds a response with a stream of events, whose data is one of these types as JSON.
    pub(crate) fn answer_events<T: JsonSchema, U: JsonSchema>(
        self,
        status: u16,
        about: &str,
    ) -> Self {
        self.answer_with(status, about, Some(("text/event-stream", Shape::events::<T, U>())))
    }

    /// Adds a response with a JSON object of no fixed shape.
    pub(crate) fn answer_object(self, status: u16, about: &str) -> Self {
        self.answer_with(status, about, Some((JSON, Shape::Given(json!({"type": "object"})))))
    }

    /// Adds a response without a body.
    pub(crate) fn answer_empty(self, status: u16, about: &str) -> Self {
        self.answer_with(status, about, None)
    }

    /// Adds error responses with these statuses, all in the dialect's error shape.
    pub(crate) fn refuse<T: JsonSchema>(self, statuses: &[u16]) -> Self {
        statuses.iter().fold(self, |this, status| this.answer::<T>(*status, meaning(*status)))
    }

    /// Adds the responses for unauthenticated, unauthorized and rate-limited callers, in this error shape.
    pub(crate) fn guarded<T: JsonSchema>(self) -> Self {
        let missing =
            [401, 403, 429].into_iter().filter(|status| !self.answers.contains_key(status));
        let missing: Vec<_> = missing.collect();
        self.refuse::<T>(&missing)
    }

    /// Adds a header to the responses with this status.
    pub(crate) fn answer_header(mut self, status: u16, name: &'static str) -> Self {
        self.answers.entry(status).and_modify(|answer| answer.headers.push(name));
        self
    }

    /// Adds a link from this response to the operation `to`, with parameters from the response.
    pub(crate) fn next(mut self, status: u16, to: &str, parameters: &[(&str, &str)]) -> Self {
        let parameters = parameters.iter().map(|(name, from)| ((*name).into(), (*from).into()));
        let link = Link { to: to.into(), parameters: parameters.collect(), body: None };
        self.answers.entry(status).and_modify(|answer| answer.links.push(link));
        self
    }

    /// Adds a link with parameters and a body from the response.
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

    /// Makes all follow-up operations use this path parameter of the request.
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
            // An empty body is valid too.
            let is_required = *kind != BYTES;
            written["requestBody"] =
                json!({"required": is_required, "content": {*kind: {"schema": schema}}});
        }
        written
    }
}

fn query_parameter((name, mut schema, is_required): (String, Value, bool)) -> Value {
    let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    // A query parameter is present or missing, but never null.
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

/// Returns the ways to authenticate.
pub(super) fn sessions() -> Value {
    json!({
        "apiKey": {
            "type": "http", "scheme": "bearer",
            "description": "An API key, `lh_ID_SECRET`, or a token of an issuer that the auth file names, \
                            required if the server has an auth file. Without a valid credential, the response \
                            is 401; without the right, 403.",
        },
        "session": {"type": "http", "scheme": "bearer", "description": "The id of a session of files."},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "hengdang_session", "description": "The same."},
    })
}

/// Returns the header that every request can have.
pub(super) fn request_id() -> Value {
    json!({
        "in": "header", "name": "X-Request-ID", "required": false, "schema": {"type": "string"},
        "description": "Returned with the response, and logged.",
    })
}
