//! What handlers take out of a request before they begin.

use std::convert::Infallible;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::error::{Code, Refusal};
use crate::app::App;
use crate::auth::Caller;
use crate::dialect::{path, query};
use crate::door::Arrival;
use crate::http::body;

/// The lease a path is about, as it was written.
pub(super) struct Lease(pub(super) String);

impl FromRequestParts<App> for Lease {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        Ok(Self(name(parts, app, "lease").await?))
    }
}

/// The lock a path is about. Whose it is stands elsewhere.
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

/// Who asks and what they are, as far as the headers say. Without authentication they stand in for a credential.
pub(super) struct Claimed {
    headers: HeaderMap,
    caller: Caller,
    /// They ask from this machine.
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
    /// Whoever says who they are can only speak for themselves.
    pub(super) fn must_be(&self, owner_id: &str) -> Result<(), Refusal> {
        if self.caller.is_asked() {
            return self.must_be_of(owner_id);
        }
        let mut named = self.headers.get_all("x-owner-id").iter();
        if named.all(|named| named.as_bytes() == owner_id.as_bytes()) {
            return Ok(());
        }
        let why = "owner_id: is not who x-owner-id says is asking";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, Code::OwnerTokenMismatch, why))
    }

    /// The same for what is there already. What was acquired while nobody was asked who they are belongs to whoever is
    /// not asked now either, by any name: who has its id, and may be anonymous, goes on with it.
    pub(super) fn must_be_holder(&self, owner_id: &str) -> Result<(), Refusal> {
        let is_of_before = self.caller.is_asked() && self.caller.principal().is_anonymous();
        if is_of_before { Ok(()) } else { self.must_be(owner_id) }
    }

    /// A principal speaks for itself, and for what it calls its own.
    fn must_be_of(&self, owner_id: &str) -> Result<(), Refusal> {
        let subject = self.caller.principal().subject();
        let rest = owner_id.strip_prefix(subject);
        if rest.is_some_and(|rest| rest.is_empty() || rest.len() > 1 && rest.starts_with('/')) {
            return Ok(());
        }
        let why = format!("owner_id must be {subject:?} or begin with \"{subject}/\"");
        Err(Refusal::new(StatusCode::UNAUTHORIZED, Code::OwnerTokenMismatch, why))
    }

    /// What a header says of its sender is believed only where nobody has to prove anything: without authentication,
    /// on this machine. With it, the right to revoke is asked for instead.
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

/// The parameters of a query, all of them known.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        query::parse(&parts.uri).map(Self).map_err(Refusal::invalid)
    }
}

/// A JSON body.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequest<App> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let options = &app.http;
        Ok(Self(body::json(request, options.body_bytes_max, options.body_timeout).await?))
    }
}
