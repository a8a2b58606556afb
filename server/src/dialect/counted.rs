//! Whom what a request asks for is counted with: its principal, or if nobody vouches for that, where it came from.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;

use crate::app::App;
use crate::auth::Caller;
use crate::door::Arrival;
use crate::http::forwarded;

/// As the core counts it.
#[derive(Clone, Copy)]
pub(super) struct Counted(pub(super) Option<leasehold_core::Peer>);

impl Counted {
    /// Behind a trusted proxy, whoever it says it speaks for.
    pub(super) fn by(app: &App, arrival: &Arrival, headers: &HeaderMap) -> Self {
        Self::from(&arrival.caller, || {
            forwarded::client(headers, arrival.peer, &app.http.trusted_proxies)
        })
    }

    /// Whoever proves who they are is counted by that, wherever they ask from.
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

/// An IPv4 address by itself; of an IPv6 one the first half, because the other is whoever has it to choose. The two do
/// not meet: no address that is handed out begins with 32 zeros.
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
    fn neighbours_in_one_ipv6_network_are_one_and_those_in_ipv4_are_not() {
        let number = |text: &str| number(text.parse().expect("an address"));
        assert_eq!(number("2001:db8:1:2::1"), number("2001:db8:1:2:ffff::9"));
        assert_ne!(number("2001:db8:1:2::1"), number("2001:db8:1:3::1"));
        assert_ne!(number("192.0.2.1"), number("192.0.2.2"));
        assert_eq!(number("192.0.2.1"), number("::ffff:192.0.2.1"));
    }
}
