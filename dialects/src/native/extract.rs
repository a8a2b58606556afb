//! Extractors: the parts of a request that handlers need.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{Request, Uri};
use leasehold_base::clock::Instant;
use leasehold_core::{Limit, LockKey};
use serde::de::DeserializeOwned;

use super::error::Refusal;
use crate::app::App;
use crate::http::body;
use crate::http::request::Arrival;
use crate::{path, query};

/// The time at which the request arrived. `expires_after_send_ms` in the response counts from here, however long the
/// request waited for a lock.
pub(super) struct Received(pub(super) Instant);

impl FromRequestParts<App> for Received {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        Ok(Self(Arrival::of(parts).received))
    }
}

async fn names(parts: &mut Parts, app: &App) -> Result<HashMap<String, String>, Refusal> {
    path::names(parts, app).await.map_err(Refusal::invalid)
}

/// The namespace in the path, or the configured one if the path names none.
pub(super) struct Namespace(pub(super) Arc<str>);

impl FromRequestParts<App> for Namespace {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let named = names(parts, app).await?.remove("namespace");
        if named.as_ref().is_some_and(|name| name.len() > app.limits.namespace_bytes_max) {
            return Err(app.limits.exceeded(Limit::Namespace).into());
        }
        Ok(Self(named.map_or_else(|| app.dialect.native.namespace.clone(), Arc::from)))
    }
}

/// Rejects paths in which the name of the namespace is empty.
pub(super) async fn empty_namespace() -> Refusal {
    Refusal::invalid("the namespace in the path is empty")
}

/// The lock that the path names.
pub(super) struct Lock(pub(super) LockKey);

impl FromRequestParts<App> for Lock {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let mut names = names(parts, app).await?;
        let name = names.remove("lock").unwrap_or_default();
        let namespace = names.remove("namespace");
        let namespace = namespace.map_or_else(|| app.dialect.native.namespace.clone(), Arc::from);
        Ok(Self(LockKey { namespace, name: name.into() }))
    }
}

/// The session id in the path.
pub(super) struct SessionId(pub(super) String);

impl FromRequestParts<App> for SessionId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        Ok(Self(names(parts, app).await?.remove("session").unwrap_or_default()))
    }
}

/// The number at the end of the path; `None` if it is malformed.
pub(super) struct Number(pub(super) Option<u64>);

impl FromRequestParts<App> for Number {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let text = names(parts, app).await?.remove("number").unwrap_or_default();
        Ok(Self(text.parse().ok()))
    }
}

/// The query parameters. An unknown parameter is an error.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        query::parse(&parts.uri).map(Self).map_err(Refusal::invalid)
    }
}

/// Rejects query parameters, for calls that take none. Calls with a body do not need this, because [`Body`] does the
/// same.
pub(super) struct NoParams;

impl FromRequestParts<App> for NoParams {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        no_params(&parts.uri).map(|()| Self)
    }
}

/// Rejects query parameters instead of ignoring them: a client might rely on an unknown one, as on `dry_run`.
fn no_params(uri: &Uri) -> Result<(), Refusal> {
    query::none(uri).map_err(Refusal::invalid)
}

/// The JSON body of a call that takes no query parameters.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> Body<T> {
    pub(super) async fn read<B>(request: Request<B>, app: &App) -> Result<Self, Refusal>
    where
        B: HttpBody<Data = Bytes>,
    {
        no_params(request.uri())?;
        let options = &app.http;
        Ok(Self(body::json(request, options.body_bytes_max, options.body_timeout).await?))
    }
}

impl<T: DeserializeOwned + Send> FromRequest<App> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: axum::extract::Request, app: &App) -> Result<Self, Refusal> {
        Self::read(request, app).await
    }
}
