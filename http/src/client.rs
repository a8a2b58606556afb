//! Which client a request is counted for, in the limits of each client ([`leasehold_auth::shares`]).

use axum::http::request::Parts;
use leasehold_auth::Caller;
use leasehold_auth::shares::Client;

use super::{Options, forwarded};
use crate::request::Arrival;

/// Returns the client that sent a request.
pub fn of_request(options: &Options, parts: &Parts) -> Client {
    of_caller(options, &Arrival::of(parts).caller, parts)
}

/// Returns the client that sent a request, if its caller is known only by a session or a ticket.
pub fn of_caller(options: &Options, caller: &Caller, parts: &Parts) -> Client {
    let peer = Arrival::of(parts).peer;
    Client::of(caller, || {
        options.network_of(forwarded::client(&parts.headers, peer, &options.trusted_proxies))
    })
}
