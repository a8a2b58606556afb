//! What handlers take out of a request before they begin.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{Request, Uri};
use leasehold_core::{Limit, LockKey};
use serde::de::DeserializeOwned;

use super::error::Refusal;
use crate::app::App;
use crate::clock::Instant;
use crate::dialect::{path, query};
use crate::door::Arrival;
use crate::http::body;

/// When the request came. Whatever is said of time in its answer counts from here, however long it waited.
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

/// The namespace a path is about.
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

/// For paths that say there is a namespace but not which.
pub(super) async fn empty_namespace() -> Refusal {
    Refusal::invalid("the namespace in the path is empty")
}

/// The lock a path is about.
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

/// The session a path is about.
pub(super) struct SessionId(pub(super) String);

impl FromRequestParts<App> for SessionId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        Ok(Self(names(parts, app).await?.remove("session").unwrap_or_default()))
    }
}

/// The number a path ends in; `None` if it is none.
pub(super) struct Number(pub(super) Option<u64>);

impl FromRequestParts<App> for Number {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let text = names(parts, app).await?.remove("number").unwrap_or_default();
        Ok(Self(text.parse().ok()))
    }
}

/// The parameters of a query, all of them known.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        query::parse(&parts.uri).map(Self).map_err(Refusal::invalid)
    }
}

/// For calls that take no parameters: there are none. Calls with a body need not ask, because [`Body`] does.
pub(super) struct NoParams;

impl FromRequestParts<App> for NoParams {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        no_params(&parts.uri).map(|()| Self)
    }
}

/// A parameter that nobody knows may be meant to change everything, like `dry_run`.
fn no_params(uri: &Uri) -> Result<(), Refusal> {
    query::none(uri).map_err(Refusal::invalid)
}

/// The JSON body of a call without parameters.
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
