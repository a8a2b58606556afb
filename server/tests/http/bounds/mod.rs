//! Nobody who may ask can take up more memory or disk than they may: what was measured to go wrong, as tests.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod downloads;
mod files;
mod list;
mod memory;
mod namespaces;

use leasehold_core::Limits;
use leasehold_server::engine;
use leasehold_testkit::{Local, Response, settings};

/// A server with these limits that keeps nothing.
async fn with_limits(limits: Limits) -> Local {
    let engine = engine::Options { limits, ..engine::Options::default() };
    Local::start(leasehold_server::serve::Settings { engine, ..settings(None) }).await
}

/// A number that `/metrics` shows.
async fn metric(local: &Local, name: &str) -> u64 {
    let text = local.client.get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// A refusal for want of room: what is allowed, by which setting, and that it may be asked again.
fn check_full(refused: &Response, allowed: u64, setting: &str) {
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.get("code"), "LIMIT_REACHED");
    assert_eq!(
        (refused.get("retryable"), refused.get("may_have_taken_effect")),
        (&true.into(), &false.into())
    );
    assert_eq!(refused.headers["retry-after"], "1");
    let why = refused.text_of("error");
    assert!(why.contains(&allowed.to_string()) && why.contains(&format!("({setting})")), "{why}");
}
