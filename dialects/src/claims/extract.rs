//! Extractors: the parts of a request that handlers need.

use std::convert::Infallible;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use leasehold_core::LeaseNumber;

use super::error::Refusal;
use super::parameter::Parameters;
use crate::app::App;
use crate::http::request::Arrival;
use crate::http::{body, forwarded};
use crate::query;

/// The claim that the path names. A malformed id is reported as a claim that does not exist.
pub(super) struct Id(pub(super) LeaseNumber);

impl FromRequestParts<App> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let path = Path::<String>::from_request_parts(parts, app).await;
        let text = path.map_err(|_| Refusal::no_such_claim())?.0;
        let number: Option<u64> = text.parse().ok();
        // Each claim has only one URL, so signs and leading zeros are rejected.
        let number = number.filter(|number| number.to_string() == text);
        number.map(|number| Self(LeaseNumber(number))).ok_or_else(Refusal::no_such_claim)
    }
}

/// The base URL by which the client reached the server, such as `http://host:port`. It is empty if the request does not
/// contain it; URLs in the response are then relative.
pub(super) struct Base(pub(super) String);

impl FromRequestParts<App> for Base {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let Arrival { peer, link, .. } = Arrival::of(parts);
        Ok(Self(forwarded::base(parts, *peer, link.is_tls, &app.http.trusted_proxies)))
    }
}

/// The query parameters, in their order.
pub(super) struct Pairs(pub(super) Vec<(String, String)>);

impl FromRequestParts<App> for Pairs {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        query::parse(&parts.uri).map(Self).map_err(Refusal::invalid)
    }
}

/// The parameters in a JSON body.
pub(super) struct Body(pub(super) Parameters);

impl FromRequest<App> for Body {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let options = &app.http;
        Ok(Self(body::json(request, options.body_bytes_max, options.body_timeout).await?))
    }
}
