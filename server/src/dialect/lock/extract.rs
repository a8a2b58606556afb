//! What handlers take out of a query before they begin.

use std::borrow::Cow;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use leasehold_core::{Limit, LockKey, Owner, Rejection, Span};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::duration;
use super::error::Refusal;
use crate::app::App;

/// The lock of a query without `job`.
const DEFAULT_JOB: &str = "default";
/// How long a lock lasts if nobody says.
const DEFAULT_TTL: Span = Span::from_secs(30);

/// Take or renew a lock.
pub(super) struct AcquireParams {
    pub(super) lock: LockKey,
    pub(super) owner: Owner,
    pub(super) ttl: Span,
}

/// Give a lock back.
pub(super) struct ReleaseParams {
    pub(super) lock: LockKey,
    pub(super) owner: Owner,
}

/// Look at a lock.
pub(super) struct LookParams {
    pub(super) lock: LockKey,
}

/// As they come. An empty parameter counts as left out, as it does for Go's `Query().Get`.
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
        let owner = owner(app, &query.client)?;
        Ok(Self { lock: lock(app, query.job), owner, ttl: ttl(app, &query.ttl)? })
    }
}

impl FromRequestParts<App> for ReleaseParams {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let query: ReleaseQuery = parse(parts)?;
        Ok(Self { owner: owner(app, &query.client)?, lock: lock(app, query.job) })
    }
}

impl FromRequestParts<App> for LookParams {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let query: LookQuery = parse(parts)?;
        Ok(Self { lock: lock(app, query.job) })
    }
}

fn parse<T: DeserializeOwned>(parts: &Parts) -> Result<T, Refusal> {
    if !is_text(parts.uri.query().unwrap_or_default()) {
        return Err(Refusal::invalid("the query: is not percent-encoded UTF-8"));
    }
    let Query(query) = Query::try_from_uri(&parts.uri)
        .map_err(|error| Refusal::invalid(format!("the query: {}", error.body_text())))?;
    Ok(query)
}

/// Whoever decodes a query puts the same replacement character for everything that is no text. Two clients
/// must not become one by that.
fn is_text(query: &str) -> bool {
    let mut decoded = Vec::with_capacity(query.len());
    let mut pieces = query.split('%');
    decoded.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let hex = piece.get(..2).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) else { return false };
        decoded.push(byte);
        decoded.extend_from_slice(&piece.as_bytes()[2..]);
    }
    matches!(String::from_utf8_lossy(&decoded), Cow::Borrowed(_))
}

/// The core looks at an owner's length only when a lease is added; here every call is told the same.
fn owner(app: &App, client: &str) -> Result<Owner, Refusal> {
    if client.is_empty() {
        return Err(Refusal::invalid("client parameter required"));
    }
    if client.len() > app.limits.owner_bytes_max {
        return Err(Rejection::Limit(Limit::Owner).into());
    }
    Ok(crate::dialect::owner::anonymous(client))
}

fn lock(app: &App, job: String) -> LockKey {
    let name = if job.is_empty() { DEFAULT_JOB.into() } else { job };
    LockKey::new(app.dialect.lock_namespace.clone(), name)
}

fn ttl(app: &App, text: &str) -> Result<Span, Refusal> {
    if text.is_empty() {
        return Ok(DEFAULT_TTL.min(app.limits.ttl_max));
    }
    duration::parse_positive(text).ok_or_else(|| Rejection::Limit(Limit::Ttl).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_text_or_it_is_nothing() {
        for query in ["", "client=a", "client=%C3%A9&ttl=5%c2%b5s", "client=é", "a=%25", "a=%00"] {
            assert!(is_text(query), "{query}");
        }
        for query in ["client=%", "client=%4", "client=%zz", "client=%é", "client=%FF", "a=%C3&b"]
        {
            assert!(!is_text(query), "{query}");
        }
    }
}
