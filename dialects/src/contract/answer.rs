//! The responses of an operation, and links to follow-up operations.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schema::{Schemas, Shape};

/// The response with one status.
#[derive(Clone)]
pub(super) struct Answer {
    about: String,
    pub(super) shapes: Vec<(&'static str, Shape)>,
    pub(super) headers: Vec<&'static str>,
    pub(super) links: Vec<Link>,
}

/// An OpenAPI link: a follow-up operation whose parameters come from this response.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) to: String,
    pub(super) parameters: Map<String, Value>,
    pub(super) body: Option<Value>,
}

impl Answer {
    pub(super) fn new(status: u16) -> Self {
        let headers = matches!(status, 429 | 503).then_some("Retry-After");
        let headers = headers.into_iter().collect();
        Self { about: String::new(), shapes: Vec::new(), headers, links: Vec::new() }
    }

    /// Adds another possible meaning and body of this response.
    pub(super) fn or(&mut self, about: &str, shape: Option<(&'static str, Shape)>) {
        if !self.about.is_empty() {
            self.about.push_str(" Or: ");
        }
        self.about.push_str(about);
        self.shapes.extend(shape);
    }

    pub(super) fn write(self, schemas: &mut Schemas) -> Value {
        let mut by_kind = BTreeMap::<_, Vec<_>>::new();
        for (kind, shape) in &self.shapes {
            by_kind.entry(*kind).or_default().push(schemas.answer(shape));
        }
        let content = by_kind.into_iter().map(|(kind, mut shapes)| {
            let any = json!({"anyOf": shapes});
            let schema = if shapes.len() > 1 { any } else { shapes.remove(0) };
            (kind.to_owned(), json!({"schema": schema}))
        });
        let content: Map<_, _> = content.collect();
        let headers = self.headers.iter().chain(["X-Request-ID"].iter());
        let headers = headers.map(|name| {
            ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))
        });
        let headers: Map<_, _> = headers.collect();
        let mut written = json!({"description": self.about, "headers": headers});
        if !content.is_empty() {
            written["content"] = content.into();
        }
        let links: Map<_, _> =
            self.links.into_iter().map(|link| (link.to.clone(), link.write())).collect();
        if !links.is_empty() {
            written["links"] = links.into();
        }
        written
    }
}

impl Link {
    fn write(self) -> Value {
        let mut written = json!({"operationId": self.to, "parameters": self.parameters});
        if let Some(body) = self.body {
            written["requestBody"] = body;
        }
        written
    }
}

/// Returns the headers that responses can have.
pub(super) fn headers() -> Value {
    let text = |about: &str| json!({"description": about, "schema": {"type": "string"}});
    json!({
        "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
        "X-Request-ID": text("The id of the request."),
        "Location": text("The path."),
        "ETag": text("Differs between any two contents of a file."),
        "Last-Modified": text("When it was written."),
        "Content-Range": text("The range of bytes, and the size."),
        "Set-Cookie": text("The session as a cookie."),
        "WWW-Authenticate": text("`Bearer`: send a session."),
        "Link": text("`rel=\"next\"`: the next page, if there is one."),
    })
}

/// Returns the meaning of an error status, which is the same in all dialects.
pub(super) fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request is invalid; the body contains the reason. The request had no effect.",
        401 => "Missing or wrong credentials.",
        403 => "The caller lacks the right.",
        404 => "Not found, or no longer there.",
        408 => "The body did not arrive in time.",
        409 => "The operation is not possible now.",
        412 => "A condition of the request does not hold. The request had no effect.",
        413 => "The body is too large.",
        415 => "The Content-Type is not application/json.",
        416 => "The range does not exist.",
        429 => "A limit was reached; the error names it and its setting.",
        500 => "An internal error.",
        507 => "The disk is full. The request had no effect.",
        503 => "Unavailable: the database is busy, the server is overloaded, or it is stopping.",
        _ => "Refused.",
    }
}
