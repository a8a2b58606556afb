//! Measured work that starts at the HTTP front end. It includes authentication, but no sockets.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderValue, Request, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leasehold_auth::{Bounds, Gate, NewKey};
use leasehold_base::clock::FakeClock;
use leasehold_engine::Stepped;
use leasehold_server::app::App;
use leasehold_server::dialect::Dialect;
use leasehold_server::door::{Door, Visitor};
use leasehold_server::metrics::Metrics;
use leasehold_store::memory::MemoryStore;
use leasehold_testkit::{TempDir, Value, folder, json, settings};

const N_CLIENTS: usize = 64;

/// The credential that clients send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// No credential, on a server without authentication.
    Nothing,
    Key,
    /// The same signed token in every request.
    Token,
}

impl Shown {
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::Key, Self::Token];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "plain",
            Self::Key => "key",
            Self::Token => "token",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|known| known.name() == name).expect("something to show")
    }
}

/// An HTTP front end, its engine, and clients that acquire and release locks.
pub(crate) struct DoorBench {
    engine: Stepped,
    door: Door,
    clients: Vec<Visitor>,
    headers: HeaderMap,
    _folder: TempDir,
}

impl DoorBench {
    pub(crate) fn start(shown: Shown) -> Self {
        let folder = folder();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:8080"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let credential = match shown {
            Shown::Nothing => None,
            Shown::Key => Some(write_key(&folder)),
            Shown::Token => Some(write_issuer(&folder)),
        };
        if let Some(credential) = &credential {
            let value = format!("Bearer {credential}").parse().expect("a value");
            headers.insert(header::AUTHORIZATION, value);
        }
        let gate = credential.map(|_| {
            Gate::load(&folder.path().join("auth.toml"), Bounds::DEFAULT).expect("a file")
        });
        let settings = settings(None);
        let limits = settings.engine.limits.clone();
        let (clock, metrics) = (
            Arc::new(FakeClock::default()),
            Arc::new(Metrics::new(leasehold_server::dialect::NAMES)),
        );
        let store = Box::new(MemoryStore::default());
        let (engine, handle) =
            Stepped::start(settings.engine, store, clock, metrics.engine.clone()).expect("a start");
        let (http, retry) = (settings.http, settings.retry);
        let app = App::new(handle, metrics, http, retry, settings.dialect, limits);
        let app = app.with_auth(gate.unwrap_or_else(Gate::off));
        let door = Door::new(app, &[Dialect::Native]);
        let client = || Visitor { remembered: Some(Arc::default()), ..Visitor::LOCAL };
        let clients = (0..N_CLIENTS).map(|_| client()).collect();
        Self { engine, door, clients, headers, _folder: folder }
    }

    /// Returns the number of requests in `n_rounds` rounds.
    pub(crate) fn n_requests(n_rounds: usize) -> f64 {
        (2 * n_rounds * N_CLIENTS) as f64
    }

    pub(crate) fn run(&mut self, n_rounds: usize) {
        for _ in 0..n_rounds {
            let taken = json!({"owner_id": "a", "ttl_ms": 60_000}).to_string();
            let granted = self.ask("acquire", |_| taken.clone());
            let proofs = granted.iter().map(|answer| {
                let granted: Value = serde_json::from_slice(answer).expect("JSON");
                let (lease, token) = (&granted["lease_id"], &granted["fencing_token"]);
                assert_eq!(granted["acquired"], true, "{granted}");
                json!({"owner_id": "a", "lease_id": lease, "fencing_token": token}).to_string()
            });
            let proofs: Vec<_> = proofs.collect();
            self.ask("release", |n| proofs[n].clone());
        }
    }

    /// Sends one request per client, runs one engine round, and returns the body of each response.
    fn ask(&mut self, verb: &str, body: impl Fn(usize) -> String) -> Vec<Vec<u8>> {
        let Self { engine, door, clients, headers, .. } = self;
        let mut asked: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(n, client)| {
                let mut request = Request::new(Body::from(body(n)));
                *request.method_mut() = axum::http::Method::POST;
                *request.uri_mut() = format!("/v1/locks/l-{n}/{verb}").parse().expect("a path");
                *request.headers_mut() = headers.clone();
                Box::pin(door.answer(client.clone(), request))
            })
            .collect();
        let context = &mut Context::from_waker(Waker::noop());
        for call in &mut asked {
            assert!(call.as_mut().poll(context).is_pending(), "no request was processed yet");
        }
        assert!(engine.turn().is_some(), "it goes on");
        let answered = asked.into_iter().map(|mut call| match call.as_mut().poll(context) {
            Poll::Ready(answer) => whole(answer.deliver()),
            Poll::Pending => panic!("no answer"),
        });
        answered.collect()
    }
}

/// Returns the body of a response that consists of a single frame.
fn whole(response: axum::response::Response) -> Vec<u8> {
    assert_eq!(response.status(), 200);
    let mut body = pin!(response.into_body());
    match body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().expect("data").to_vec(),
        other => panic!("{other:?}"),
    }
}

fn write_key(folder: &TempDir) -> String {
    let NewKey { id, text, sha256 } = NewKey::draw();
    let keys = format!("[[key]]\nname = \"ci\"\nid = \"{id}\"\nsha256 = \"{sha256}\"\n");
    std::fs::write(folder.path().join("keys.toml"), keys).expect("a file");
    write_rules(folder, "key-files = [\"keys.toml\"]", "who = [\"key:ci\"]");
    text
}

fn write_issuer(folder: &TempDir) -> String {
    let key = Ed25519KeyPair::generate().expect("a key");
    let x = URL_SAFE_NO_PAD.encode(key.public_key().as_ref());
    let jwks = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]});
    std::fs::write(folder.path().join("jwks.json"), jwks.to_string()).expect("a file");
    let issuer = "[[oidc]]\nname = \"oidc\"\nissuer = \"https://id.example.org\"\n\
        audiences = [\"leasehold\"]\nalgorithms = [\"EdDSA\"]\njwks-file = \"jwks.json\"\n";
    write_rules(folder, issuer, "groups = [\"oidc:bench\"]");
    let claims = json!({
        "iss": "https://id.example.org", "aud": "leasehold", "sub": "alice", "exp": 9_999_999_999_u64,
        "groups": ["bench"], "more": "x".repeat(400),
    });
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let head = encode(r#"{"alg":"EdDSA","kid":"k"}"#);
    let message = format!("{head}.{}", encode(&claims.to_string()));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()).as_ref());
    format!("{message}.{signature}")
}

fn write_rules(folder: &TempDir, first: &str, who: &str) {
    let rules = format!(
        "version = 1\n{first}\n[[rule]]\nname = \"all\"\n{who}\nmay = [\"acquire\"]\nnamespaces = [\"*\"]\n"
    );
    std::fs::write(folder.path().join("auth.toml"), rules).expect("a file");
}
