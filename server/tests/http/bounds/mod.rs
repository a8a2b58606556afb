//! Tests that no client can use more memory or disk space than its limits allow. Each case once went wrong in a
//! measurement.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod downloads;
mod files;
mod list;
mod memory;
mod namespaces;

use leasehold_core::Limits;
use leasehold_engine as engine;
use leasehold_testkit::{Local, Response, settings};

/// Starts a server with these limits and without a data directory.
async fn with_limits(limits: Limits) -> Local {
    let engine = engine::Options { limits, ..engine::Options::default() };
    Local::start(leasehold_server::serve::Settings { engine, ..settings(None) }).await
}

/// Returns the value of a metric.
async fn metric(local: &Local, name: &str) -> u64 {
    let text = local.client.get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Checks a refusal because of a limit: it names the limit and its setting, and says that a retry can succeed.
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
