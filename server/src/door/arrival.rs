//! What is known of a request before anybody looks at what it asks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request};
use tracing::Span;
use tracing::field::Empty;

use super::Link;
use super::trace::TraceContext;
use crate::app::App;
use crate::auth::{Caller, Remembered};
use crate::clock::Instant;
use crate::http::Stream;

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// So much of a client's own request id is logged.
const LOGGED_CHARS_MAX: usize = 128;

/// The other end of the connection a request came by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Somebody in the network.
    Address(IpAddr),
    /// Somebody on this machine, by a Unix socket.
    Unix,
}

impl Peer {
    /// Somebody on this machine.
    pub const LOCAL: Self = Self::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));

    /// Where it is. A Unix socket is on this machine.
    pub fn address(self) -> IpAddr {
        match self {
            Peer::Address(address) => address,
            Peer::Unix => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(f),
            Peer::Unix => f.write_str("unix"),
        }
    }
}

/// Who comes through the door.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// From where.
    pub peer: Peer,
    /// By which listener, and how.
    pub link: Link,
    /// There is no place for it, so it is only served what cannot wait.
    pub is_restricted: bool,
    /// The setting because of which there is no place; `None`: another reason, or there is one.
    pub limit: Option<&'static str>,
    /// Who the last request of its connection was from; `None`: nobody remembers.
    pub remembered: Option<Arc<Remembered>>,
    /// The HTTP/2 stream, if the request shares its connection with others.
    pub stream: Option<Stream>,
}

impl Visitor {
    /// Somebody on this machine, welcome to everything.
    pub const LOCAL: Self = Self {
        peer: Peer::LOCAL,
        link: Link::PLAIN,
        is_restricted: false,
        limit: None,
        remembered: None,
        stream: None,
    };
}

/// Made once for each request, by the door.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) peer: Peer,
    pub(crate) link: Link,
    /// When the request came. Whatever is said of time in its answer counts from here, however long it waited.
    pub(crate) received: Instant,
    pub(crate) caller: Caller,
    /// Nobody on the way could read or change it (TLS, this machine, or a trusted proxy that says so), and no page of
    /// another origin asks: cookies count. Known only where they matter.
    pub(crate) is_private: bool,
    pub(super) request_id: RequestId,
}

/// What a request is called in the log.
#[derive(Clone, Debug)]
pub(super) enum RequestId {
    /// By whoever sent it. It comes back with the answer.
    Given(HeaderValue),
    /// By us.
    Made(u64),
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Given(id) => f.write_str(&logged(id)),
            RequestId::Made(id) => write!(f, "{id:016x}"),
        }
    }
}

impl Arrival {
    pub(super) fn new<B>(
        app: &App,
        ids: &Ids,
        visitor: &Visitor,
        is_private: bool,
        caller: Caller,
        request: &Request<B>,
        received: Option<Instant>,
    ) -> Self {
        let (peer, link) = (visitor.peer, visitor.link.clone());
        let given = request.headers().get(X_REQUEST_ID).cloned();
        let request_id = given.map_or_else(|| RequestId::Made(ids.next()), RequestId::Given);
        let received = received.unwrap_or_else(|| app.engine.instant());
        Self { peer, link, received, caller, is_private, request_id }
    }

    /// As the door noted it.
    pub(crate) fn of(parts: &Parts) -> &Self {
        parts.extensions.get().expect("every request comes through the door")
    }

    /// Whoever names a request wants to find it in the log. The others are there for those who debug.
    pub(super) fn span(&self, headers: &HeaderMap) -> Span {
        let id = &self.request_id;
        let span = match id {
            RequestId::Given(_) => {
                tracing::info_span!("request", request_id = %id, trace_id = Empty)
            }
            RequestId::Made(_) => {
                tracing::debug_span!("request", request_id = %id, trace_id = Empty)
            }
        };
        // Nobody looks for it if nobody logs it.
        if !span.is_disabled()
            && let Some(trace) = TraceContext::of(headers)
        {
            span.record("trace_id", tracing::field::display(trace));
        }
        span
    }

    /// As it is logged, if the client named it.
    pub(super) fn claimed(&self) -> Option<Box<str>> {
        match &self.request_id {
            RequestId::Given(id) => Some(logged(id).into()),
            RequestId::Made(_) => None,
        }
    }

    pub(super) fn is_named(&self) -> bool {
        matches!(self.request_id, RequestId::Given(_))
    }
}

/// The ids one door gives to requests that have none.
pub(super) struct Ids(AtomicU64);

impl Ids {
    /// Each door begins somewhere else.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(u64::from_le_bytes(crate::random::bytes())))
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Relaxed)
    }
}

/// Bounded, and with nothing in it that a terminal would obey.
fn logged(id: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(id.as_bytes());
    text.chars().take(LOGGED_CHARS_MAX).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_in_the_log_is_short_and_harmless() {
        let logged = |bytes: &[u8]| logged(&HeaderValue::from_bytes(bytes).expect("a value"));
        assert_eq!(logged(b"abc-1"), "abc-1");
        assert_eq!(logged("a\u{9b}2J\u{202e}b".as_bytes()), r"a\u{9b}2J\u{202e}b");
        assert_eq!(logged(b"a\xff\tb"), "a\u{fffd}\\tb");
        assert_eq!(logged(&[b'x'; 5000]).len(), LOGGED_CHARS_MAX);
    }
}
