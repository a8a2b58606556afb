//! Tests of Terraform's `http` backend, request by request as Terraform 1.11 sends them. `scripts/doors` tests the real
//! client.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod identity;
mod lock;
mod version;
mod write;

use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, Method, Response, json, settings};

/// A server, and Terraform requests to it.
struct Scene {
    local: Local,
}

impl Scene {
    async fn new() -> Self {
        Self::with(settings(None), |_| {}).await
    }

    async fn with(mut settings: Settings, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut settings);
        Self { local: Local::start(settings).await }
    }

    async fn send(&self, line: &str, body: impl Into<String>) -> Response {
        let (method, path) = line.split_once(' ').expect("a method");
        let method: Method = method.parse().unwrap();
        let sent = self.local.client.send(method, path, Some("application/json"), body.into());
        sent.await.unwrap()
    }

    async fn get(&self, path: &str) -> Response {
        self.local.client.get(path).await
    }

    #[track_caller]
    fn is(&self, response: &Response, status: u16) {
        assert_eq!(response.status, status, "{response:?}");
    }
}

/// Returns the lock info that Terraform sends.
fn info(id: &str, who: &str) -> String {
    json!({
        "ID": id, "Operation": "OperationTypeApply", "Info": "", "Who": who, "Version": "1.11.4",
        "Created": "2026-11-15T14:39:06.240418263Z", "Path": "",
    })
    .to_string()
}

const A: &str = "a35dde15-8243-6cfe-3585-643f541c206f";
const B: &str = "b530956b-1111-2222-3333-444455556666";
