//! Tests of the OpenAPI contract as the server serves it: equal to the checked-in copy, complete, and true of every
//! route. `scripts/contract` sends its requests to a running server.

mod checked_in;
mod dialect;
mod document;
mod page;

use hyper::Method;
use leasehold_server::dialect::Dialect;
use leasehold_testkit::{Client, Local, Value, settings};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Starts a server with these dialects. Returns it with its contract.
async fn server_of(dialects: &[Dialect]) -> (Local, Value) {
    let mut settings = settings(None);
    settings.dialects = dialects.to_vec();
    let local = Local::start(settings).await;
    let contract = local.client.get("/openapi.json").await.body;
    (local, contract)
}

/// An operation of a contract.
struct Operation<'a> {
    path: &'a str,
    is: &'a Value,
}

impl Operation<'_> {
    /// Returns the dialect or area that the operation belongs to.
    fn tag(&self) -> &str {
        self.is["tags"][0].as_str().expect("a tag")
    }

    fn id(&self) -> &str {
        self.is["operationId"].as_str().expect("an id")
    }
}

fn operations(contract: &Value) -> Vec<Operation<'_>> {
    let paths = contract["paths"].as_object().expect("paths");
    let methods = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").values();
        methods.map(move |is| Operation { path, is })
    });
    methods.collect()
}

/// Returns the names of the parameters in a path template.
fn names_in(path: &str) -> Vec<&str> {
    path.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).collect()
}

/// Fills in a path template with example values.
fn example_of(path: &str) -> String {
    names_in(path).iter().fold(path.into(), |path, name| path.replace(&format!("{{{name}}}"), "1"))
}

/// Returns the methods that a path allows, read from its response to an unknown method. Returns `None` if there is no
/// such path.
async fn allowed(client: &Client, path: &str) -> Option<Vec<String>> {
    let unheard = Method::from_bytes(b"UNHEARD").expect("a method");
    let answer = client.send(unheard, &example_of(path), None, "").await.expect("an answer");
    if answer.status == 404 {
        return None;
    }
    assert_eq!(answer.status, 405, "{path}: {answer:?}");
    let allow = answer.headers["allow"].to_str().expect("text").to_ascii_lowercase();
    let methods = allow.split(',').map(str::trim);
    // OpenAPI cannot describe the WebDAV methods. `OPTIONS` is left out too: every WebDAV path supports it, without
    // parameters.
    let unknown = ["lock", "unlock", "propfind", "proppatch", "mkcol", "copy", "move", "options"];
    let told = methods.filter(|method| !unknown.contains(method));
    let mut allowed: Vec<_> = told.map(str::to_owned).collect();
    allowed.sort();
    Some(allowed)
}
