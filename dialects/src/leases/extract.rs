//! Extractors: the parts of a request that handlers need.

use std::convert::Infallible;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use leasehold_auth::Caller;
use serde::de::DeserializeOwned;

use super::error::{Code, Refusal};
use crate::app::App;
use crate::http::body;
use crate::http::request::Arrival;
use crate::{path, query};

/// The lease id in the path, not yet parsed.
pub(super) struct Lease(pub(super) String);

impl FromRequestParts<App> for Lease {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        Ok(Self(name(parts, app, "lease").await?))
    }
}

/// The lock key in the path. The tenant is in the query or the body.
pub(super) struct Lock(pub(super) String);

impl FromRequestParts<App> for Lock {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        Ok(Self(name(parts, app, "lock").await?))
    }
}

async fn name(parts: &mut Parts, app: &App, which: &str) -> Result<String, Refusal> {
    let mut names = path::names(parts, app).await.map_err(Refusal::invalid)?;
    Ok(names.remove(which).unwrap_or_default())
}

/// The identity and role that the request headers claim. Without authentication, they replace a credential.
pub(super) struct Claimed {
    headers: HeaderMap,
    caller: Caller,
    /// The request comes from this machine, through a loopback address.
    is_near: bool,
}

impl FromRequestParts<App> for Claimed {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let arrival = Arrival::of(parts);
        let (caller, is_near) =
            (arrival.caller.clone(), arrival.peer.address().to_canonical().is_loopback());
        Ok(Self { headers: parts.headers.clone(), caller, is_near })
    }
}

impl Claimed {
    /// Checks that the caller is allowed to act as this owner. With authentication, the owner must belong to the
    /// caller's principal. Without, it must match the header `x-owner-id`, if that is present.
    pub(super) fn must_be(&self, owner_id: &str) -> Result<(), Refusal> {
        if self.caller.is_asked() {
            return self.must_be_of(owner_id);
        }
        let mut named = self.headers.get_all("x-owner-id").iter();
        if named.all(|named| named.as_bytes() == owner_id.as_bytes()) {
            return Ok(());
        }
        let why = "owner_id: must be the same as x-owner-id";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, Code::OwnerTokenMismatch, why))
    }

    /// Checks the same for an existing lease. A lease from before authentication was enabled belongs to the anonymous
    /// principal, so an anonymous caller that knows its id can continue to use it under any owner id.
    pub(super) fn must_be_holder(&self, owner_id: &str) -> Result<(), Refusal> {
        let is_of_before = self.caller.is_asked() && self.caller.principal().is_anonymous();
        if is_of_before { Ok(()) } else { self.must_be(owner_id) }
    }

    /// Checks that the owner id is the subject of the caller's principal, or begins with it and a slash.
    fn must_be_of(&self, owner_id: &str) -> Result<(), Refusal> {
        let subject = self.caller.principal().subject();
        let rest = owner_id.strip_prefix(subject);
        if rest.is_some_and(|rest| rest.is_empty() || rest.len() > 1 && rest.starts_with('/')) {
            return Ok(());
        }
        let why = format!("owner_id must be {subject:?} or begin with \"{subject}/\"");
        Err(Refusal::new(StatusCode::UNAUTHORIZED, Code::OwnerTokenMismatch, why))
    }

    /// Checks that the caller is an admin. Without authentication, the role in the header `x-role` counts only if the
    /// request comes from this machine. With authentication this check passes, because the right to revoke is checked
    /// instead.
    pub(super) fn must_be_admin(&self) -> Result<(), Refusal> {
        if self.caller.is_asked() {
            return Ok(());
        }
        if self.is_near && self.headers.get("x-role").is_some_and(|role| role == "ADMIN") {
            return Ok(());
        }
        let why = "only an admin may do this (x-role: ADMIN, from this machine; elsewhere an auth-file is needed)";
        Err(Refusal::new(StatusCode::FORBIDDEN, Code::Forbidden, why))
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

/// The JSON body of a request.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequest<App> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let options = &app.http;
        Ok(Self(body::json(request, options.body_bytes_max, options.body_timeout).await?))
    }
}
