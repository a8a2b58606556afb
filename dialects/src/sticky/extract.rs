//! Extractors: the parts of a query that handlers need.

use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use leasehold_auth::Caller;
use leasehold_core::{LockKey, Owner, Span};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::duration;
use super::error::Refusal;
use crate::app::App;
use crate::http::request::Arrival;
use crate::{owner, query};

/// The lock if the query contains no `job`.
const DEFAULT_JOB: &str = "default";
/// The TTL if the query contains none.
const DEFAULT_TTL: Span = Span::from_secs(30);

/// The parameters of an acquire or a renewal.
pub(super) struct AcquireParams {
    pub(super) lock: LockKey,
    pub(super) owner: Owner,
    pub(super) ttl: Span,
}

/// The parameters of a release.
pub(super) struct ReleaseParams {
    pub(super) lock: LockKey,
    pub(super) owner: Owner,
}

/// The parameters of a read.
pub(super) struct LookParams {
    pub(super) lock: LockKey,
}

/// The parameters as sent. An empty one counts as missing, as in Go's `Query().Get`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcquireQuery {
    #[serde(default)]
    client: String,
    #[serde(default)]
    ttl: String,
    #[serde(default)]
    job: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseQuery {
    #[serde(default)]
    client: String,
    #[serde(default)]
    job: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LookQuery {
    #[serde(default)]
    job: String,
}

impl FromRequestParts<App> for AcquireParams {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let query: AcquireQuery = parse(parts)?;
        let owner = named(parts, &query.client)?;
        Ok(Self { lock: lock(app, query.job), owner, ttl: ttl(app, &query.ttl)? })
    }
}

impl FromRequestParts<App> for ReleaseParams {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let query: ReleaseQuery = parse(parts)?;
        Ok(Self { owner: named(parts, &query.client)?, lock: lock(app, query.job) })
    }
}

impl FromRequestParts<App> for LookParams {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let query: LookQuery = parse(parts)?;
        Ok(Self { lock: lock(app, query.job) })
    }
}

/// Returns the lock and the owner of an acquire, if the request is well-formed.
pub(super) fn asked(app: &App, caller: &Caller, uri: &Uri) -> Option<(LockKey, Owner)> {
    let query: AcquireQuery = query::parse(uri).ok()?;
    let is_named = !query.client.is_empty();
    is_named.then(|| (lock(app, query.job), owner::of(caller, &query.client)))
}

fn parse<T: DeserializeOwned>(parts: &Parts) -> Result<T, Refusal> {
    query::parse(&parts.uri).map_err(Refusal::invalid)
}

fn named(parts: &Parts, client: &str) -> Result<Owner, Refusal> {
    if client.is_empty() {
        return Err(Refusal::invalid("client parameter required"));
    }
    Ok(owner::of(&Arrival::of(parts).caller, client))
}

fn lock(app: &App, job: String) -> LockKey {
    let name = if job.is_empty() { DEFAULT_JOB.into() } else { job };
    LockKey::new(app.dialect.sticky.namespace.clone(), name)
}

fn ttl(app: &App, text: &str) -> Result<Span, Refusal> {
    if text.is_empty() {
        return Ok(DEFAULT_TTL.min(app.limits.ttl_max));
    }
    duration::parse_positive(text).ok_or_else(|| Refusal::invalid("invalid ttl format"))
}
