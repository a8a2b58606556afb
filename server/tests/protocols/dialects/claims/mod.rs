//! Tests of the claims dialect over real HTTP: each sentence of its specification, and malformed requests.

mod address;
mod change;
mod contention;
mod create;
mod list;
mod look;
mod meeting;
mod poll;
mod restart;
mod ugly;

use hyper::Method;
use leasehold_testkit::{Local, Response, Value, json};

/// A server, and requests of a claims client to it.
struct Scene {
    local: Local,
}

impl Scene {
    async fn start() -> Self {
        Self { local: Local::ephemeral().await }
    }

    async fn post(&self, body: Value) -> Response {
        self.local.client.post("/v1/claims/", body).await.expect("an answer")
    }

    /// Makes a claim on `resource` and returns its id.
    async fn claim(&self, resource: &str, timeout: f64) -> u64 {
        let answer = self.post(json!({"resource": resource, "timeout": timeout})).await;
        assert!([201, 202].contains(&answer.status), "{answer:?}");
        id(&answer)
    }

    async fn patch(&self, id: u64, body: Value) -> Response {
        self.send(Method::PATCH, &format!("/v1/claims/{id}/"), &body.to_string()).await
    }

    async fn set(&self, id: u64, status: &str) -> Response {
        self.patch(id, json!({"status": status})).await
    }

    async fn send(&self, method: Method, path: &str, body: &str) -> Response {
        let kind = Some("application/json");
        self.local.client.send(method, path, kind, body.to_owned()).await.expect("an answer")
    }

    async fn get(&self, id: u64) -> Response {
        self.local.client.get(&format!("/v1/claims/{id}/")).await
    }

    async fn status(&self, id: u64) -> String {
        self.get(id).await.text_of("status")
    }

    /// Returns the claim ids in a list response.
    async fn list(&self, query: &str) -> Vec<u64> {
        ids(&self.local.client.get(&format!("/v1/claims/{query}")).await)
    }

    /// Makes a claim on its own resource and brings it into `status`.
    async fn in_status(&self, status: &str) -> u64 {
        if status == "waiting" {
            self.claim(status, 1000.0).await;
        }
        let id = self.claim(status, if status == "expired" { 0.0 } else { 1000.0 }).await;
        if !["waiting", "active", "expired"].contains(&status) {
            assert_eq!(self.set(id, status).await.status, 204);
        }
        assert_eq!(self.status(id).await, status);
        id
    }
}

fn id(answer: &Response) -> u64 {
    id_of(&answer.body)
}

fn id_of(claim: &Value) -> u64 {
    let url = claim["url"].as_str().expect("an address");
    url.trim_end_matches('/').rsplit('/').next().expect("an id").parse().expect("a number")
}

fn ids(answer: &Response) -> Vec<u64> {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body.as_array().expect("a bare array").iter().map(id_of).collect()
}

/// Returns the field names in the body of a 400 response.
fn named(answer: &Response) -> Vec<&str> {
    assert_eq!(answer.status, 400, "{answer:?}");
    answer.body.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Returns the statuses in a claim's history.
fn history(answer: &Response) -> Vec<&str> {
    let steps = answer.get("status_history").as_array().expect("a history");
    steps.iter().map(|step| step["status"].as_str().expect("a status")).collect()
}
