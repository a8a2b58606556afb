//! A server of a random story, and the ids that both tenants got from it.

use std::collections::BTreeSet;
use std::fmt::Write;

use leasehold_testkit::{Local, Response, Value, json};

use super::call::{Asked, asked};
use super::step::Step;
use crate::auth::Scene;
use crate::auth::apart::RULES;

/// The ids and proofs that one tenant got from one server.
#[derive(Default)]
pub(super) struct Pockets {
    /// Lock paths, each with the proof of its lease.
    pub(super) leases: Vec<(String, Value)>,
    /// Lease ids of the dialect `leases`.
    pub(super) ids: Vec<String>,
    pub(super) claims: Vec<String>,
    pub(super) sessions: Vec<String>,
    pub(super) files: Vec<String>,
}

pub(super) struct World {
    pub(super) scene: Scene,
    /// Every request line that `blue` has sent.
    pub(super) sent: BTreeSet<String>,
    pub(super) red: Pockets,
    blue: Pockets,
}

impl World {
    pub(super) async fn new() -> Self {
        let scene = Scene::with(RULES, &["red", "blue", "admin"], |_| {}).await;
        let (red, blue, sent) = Default::default();
        Self { scene, sent, red, blue }
    }

    /// Sends a request. Of an event stream, which might never end, only the status is returned.
    async fn call(&self, who: &str, line: &str, body: Value) -> Response {
        if !line.contains("/events") && !line.contains("/watch") {
            return self.scene.send(who, line, body).await;
        }
        let proof = self.scene.proof(who);
        let headers: Vec<_> = proof.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let status = self.scene.status(&headers, line, &body).await;
        let (headers, body, text) = (hyper::HeaderMap::new(), Value::Null, String::new());
        Response { status, headers, body, text }
    }

    pub(super) fn shown(&self, answer: &Response) -> String {
        shown(answer, self.scene.local.address)
    }

    fn pockets(&mut self, who: &str) -> &mut Pockets {
        if who == "red" { &mut self.red } else { &mut self.blue }
    }

    /// Plays a step and returns the response. Returns `None` if the step needs an id that the tenant does not have.
    pub(super) async fn take(&mut self, step: &Step) -> Option<Response> {
        let Step { who, whose, .. } = step.clone();
        let pockets = if whose == "red" { &self.red } else { &self.blue };
        let asked = asked(step, pockets);
        if let Asked::Call(line, _) | Asked::File(line, ..) = &asked
            && who == "blue"
        {
            self.sent.insert(line.clone());
        }
        let answer = match asked {
            Asked::Nothing => return None,
            Asked::Time(ms) => {
                self.scene.local.advance_ms(ms);
                // The next request to the engine processes everything that has fallen due.
                self.scene.send("admin", "GET /v1/locks/unused", Value::Null).await;
                return None;
            }
            Asked::Call(line, body) => self.call(who, &line, body).await,
            Asked::File(line, session, body) => {
                in_session(&self.scene.local, &line, &session, body).await
            }
        };
        self.remember(step, &answer);
        Some(answer)
    }

    fn remember(&mut self, step: &Step, answer: &Response) {
        let Step { who, whose, what, n, .. } = step.clone();
        let pockets = self.pockets(who);
        match what {
            0 | 1 if answer.status == 200 => {
                let path = if what == 0 {
                    format!("/v1/locks/{whose}-n{n}")
                } else {
                    format!("/v1/namespaces/{whose}/locks/{whose}-m{n}")
                };
                let proof = json!({
                    "owner_id": format!("{who}-owner"), "lease_id": answer.get("lease_id"),
                    "fencing_token": answer.get("fencing_token"),
                });
                pockets.leases.push((path, proof));
            }
            10 if answer.status == 201 => pockets.ids.push(answer.text_of("lease_id")),
            14 if answer.status < 300 => {
                let url = answer.text_of("url");
                pockets.claims.push(url[url.find("/v1/").expect("an address")..].to_owned());
            }
            20 if answer.status == 201 => pockets.sessions.push(answer.text_of("session_id")),
            24 if answer.status == 201 => pockets.files.push(answer.text_of("sessionId")),
            _ => {}
        }
    }
}

impl World {
    /// Plays the step on the server without `red`: with the same names, but with ids that never existed.
    pub(super) async fn stand_in(&mut self, step: &Step, red: &Pockets) -> Response {
        let none = Pockets {
            leases: red.leases.iter().map(|(path, _)| (path.clone(), proof_of_nothing())).collect(),
            ids: vec![LEASE.into(); red.ids.len()],
            claims: vec!["/v1/claims/999999/".into(); red.claims.len()],
            sessions: vec!["0".repeat(64); red.sessions.len()],
            files: Vec::new(),
        };
        let Asked::Call(line, body) = asked(step, &none) else { panic!("{step:?}") };
        let answer = self.call(step.who, &line, body).await;
        self.remember(step, &answer);
        answer
    }
}

const LEASE: &str = "999999.00000000000000000000000000000000";

fn proof_of_nothing() -> Value {
    json!({"owner_id": "red-owner", "lease_id": LEASE, "fencing_token": 1})
}

async fn in_session(local: &Local, line: &str, session: &str, body: String) -> Response {
    let (method, path) = line.split_once(' ').expect("a method");
    let bearer = format!("Bearer {session}");
    let body = if method == "PUT" { body } else { String::new() };
    let method = method.parse().expect("a method");
    let headers = [("authorization", bearer.as_str())];
    local.client.send_with(method, path, &headers, body).await.expect("an answer")
}

/// Returns a response without its random and global parts: ids of leases, claims, events and sessions.
fn shown(answer: &Response, address: std::net::SocketAddr) -> String {
    let plain = |text: &str| plain(&text.replace(&address.to_string(), "HOST"));
    let mut shown = format!("{} {}", answer.status, plain(&answer.text));
    for name in ["link", "location", "retry-after", "content-type", "content-length"] {
        if let Some(value) = answer.headers.get(name) {
            let value = plain(value.to_str().expect("text"));
            let is_length = name == "content-length";
            let _ = write!(shown, "\n{name}: {}", if is_length { "N".into() } else { value });
        }
    }
    shown
}

/// Replaces event ids, long hexadecimal ids and claim numbers by `ID`.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(|c: char| !c.is_ascii_hexdigit() && c != '-').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        // A date has two dashes as well.
        let is_event = word.matches('-').count() == 2 && !word.starts_with("20");
        // The modification time of a file comes from the disk and differs too.
        let is_id = word.len() >= 13 || word.len() > 5 && is_event;
        let numbered =
            ["/v1/claims/", "active_claim_id\":", "claim:", "lease_id\":\"", "\"id\":\""];
        let is_number = numbered.iter().any(|before| plain.ends_with(before));
        plain.push_str(if is_id || is_number { "ID" } else { word });
        rest = after;
    }
    plain + rest
}
