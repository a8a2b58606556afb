//! Every failure in the format of every dialect.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header;
use http_body_util::BodyExt;
use leasehold_base::clock::FakeClock;
use leasehold_core::RetryHint;
use leasehold_engine::Engine;
use leasehold_store::memory::MemoryStore;

use super::*;
use crate::app::App;
use crate::http;
use crate::metrics::Metrics;
use crate::{ALL, Dialect};

const ENGINE: [engine::Error; 11] = [
    engine::Error::Busy,
    engine::Error::Overloaded,
    engine::Error::JournalFull,
    engine::Error::DiskFull,
    engine::Error::StoreFull,
    engine::Error::StoreAlarmed,
    engine::Error::StoreSilent,
    engine::Error::AuditFailed,
    engine::Error::Stopping,
    engine::Error::NotLeading,
    engine::Error::Unknown,
];

fn app() -> (Engine, App) {
    let metrics = Arc::new(Metrics::new(crate::NAMES));
    let (clock, store) = (Arc::new(FakeClock::default()), Box::new(MemoryStore::default()));
    let options = engine::Options::default();
    let limits = options.limits.clone();
    let (engine, handle) =
        Engine::start(options, store, clock, metrics.engine.clone()).expect("an engine");
    let (http, retry) = (http::Options::default(), RetryHint::default());
    (engine, App::new(handle, metrics, http, retry, crate::Options::default(), limits))
}

/// Returns failures of every kind.
pub(crate) fn all() -> Vec<RequestFailure> {
    let why = || "the reason".to_owned();
    let denied = [
        Denied::Unauthenticated(why()),
        Denied::Forbidden(why()),
        Denied::Origin(why()),
        Denied::TooOften(why(), Duration::from_secs(1)),
        Denied::Unavailable(why()),
    ];
    let content = [
        content::Error::Missing,
        content::Error::NotEmpty,
        content::Error::Denied,
        content::Error::TooDeep { allowed: 7 },
        content::Error::Full,
        content::Error::NoFiles,
        content::Error::Broken(std::io::Error::other("broken")),
        content::Error::Unknown,
    ];
    let bad = [
        BadBody::NotJson("text/plain".into()),
        BadBody::TooLarge(7),
        BadBody::Late(Duration::from_secs(7)),
        BadBody::Malformed,
        BadBody::Syntax(why()),
    ];
    let rejected = [Rejection::Maintenance, Rejection::TokensExhausted, Rejection::StillWaiting];
    let mut all: Vec<RequestFailure> = ENGINE.into_iter().map(RequestFailure::from).collect();
    all.extend(denied.map(RequestFailure::from));
    all.extend(content.map(RequestFailure::from));
    all.extend(bad.map(RequestFailure::from));
    all.extend(rejected.map(RequestFailure::from));
    all
}

#[test]
fn an_error_of_the_engine_says_whether_a_retry_helps_and_whether_anything_happened() {
    for error in ENGINE {
        let failure = RequestFailure::from(error);
        assert_eq!(failure.status, StatusCode::SERVICE_UNAVAILABLE, "{error:?}");
        assert!(failure.is_retryable(), "{error:?}");
        let is_unknown = error == engine::Error::Unknown;
        assert_eq!(failure.effect() == Effect::Unknown, is_unknown, "{error:?}");
        assert_eq!(failure.text.contains("the request had no effect"), !is_unknown, "{error:?}");
    }
}

#[tokio::test]
async fn every_dialect_renders_every_failure() {
    let (engine, app) = app();
    // The Redis protocol has replies instead of responses, which `redis/refusal.rs` tests.
    for dialect in ALL.iter().filter(|dialect| **dialect != Dialect::Redis) {
        for failure in all() {
            let response = dialect.render(&app, failure.clone());
            let told = format!("{dialect:?}: {failure:?}: {response:?}");
            assert_eq!(response.status(), failure.status, "{told}");
            let waits = response.headers().contains_key(header::RETRY_AFTER);
            let says_so = [Dialect::Native, Dialect::Terraform, Dialect::Lfs].contains(dialect);
            let expected = match says_so {
                true => failure.is_retryable(),
                false => [429, 503].contains(&failure.status.as_u16()) && *dialect != Dialect::Toy,
            };
            assert_eq!(waits, expected, "{told}");
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            let body = String::from_utf8_lossy(&body).replace("\\\"", "\"");
            let is_unknown = failure.effect() == Effect::Unknown;
            let says_unknown = body.contains("request might have taken effect");
            assert_eq!(says_unknown, is_unknown, "{told}: {body}");
            assert!(is_unknown || body.contains(&failure.text), "{told}: {body}");
            let says_code = serde_json::from_str::<leasehold_api::Failure>(&body);
            if *dialect == Dialect::Native {
                let said = says_code.expect("the format of errors");
                assert_eq!((said.code, said.may_have_taken_effect), (failure.code, is_unknown));
            }
        }
    }
    drop(engine);
}
