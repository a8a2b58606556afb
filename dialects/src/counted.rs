//! The unit that a request is counted under for limits: its principal or, for anonymous callers, its client address.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use leasehold_auth::Caller;

use crate::app::App;
use crate::http::forwarded;
use crate::http::request::Arrival;

/// The counting unit as the core knows it; `None` if the caller has an authenticated principal.
#[derive(Clone, Copy)]
pub(super) struct Counted(pub(super) Option<leasehold_core::Peer>);

impl Counted {
    /// Returns the unit of a request. Behind a trusted proxy, the address is the one the proxy forwards.
    pub(super) fn by(app: &App, arrival: &Arrival, headers: &HeaderMap) -> Self {
        Self::from(&arrival.caller, || {
            forwarded::client(headers, arrival.peer, &app.http.trusted_proxies)
        })
    }

    /// Counts an authenticated caller by its principal, whatever its address is.
    pub(super) fn from(caller: &Caller, address: impl FnOnce() -> IpAddr) -> Self {
        Self(caller.principal().is_anonymous().then(|| number(address())))
    }

    pub(super) fn of(app: &App, parts: &Parts) -> Self {
        Self::by(app, Arrival::of(parts), &parts.headers)
    }
}

impl FromRequestParts<App> for Counted {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(Self::of(app, parts))
    }
}

/// Returns an IPv4 address as it is, and the first half of an IPv6 address: a client can choose the second half
/// freely. The two cannot collide, because no assigned IPv6 address begins with 32 zero bits.
fn number(address: IpAddr) -> leasehold_core::Peer {
    leasehold_core::Peer(match address.to_canonical() {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_one_ipv6_network_count_as_one_and_ipv4_addresses_do_not() {
        let number = |text: &str| number(text.parse().expect("an address"));
        assert_eq!(number("2001:db8:1:2::1"), number("2001:db8:1:2:ffff::9"));
        assert_ne!(number("2001:db8:1:2::1"), number("2001:db8:1:3::1"));
        assert_ne!(number("192.0.2.1"), number("192.0.2.2"));
        assert_eq!(number("192.0.2.1"), number("::ffff:192.0.2.1"));
    }
}
