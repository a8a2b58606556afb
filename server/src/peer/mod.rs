//! The other servers of a cluster. Followers forward requests to the leader over HTTP/2, to a listener that only
//! cluster peers use.
//!
//! Headers describe where a forwarded request came from and how long it was held ([`hop`]). The leader trusts them only
//! from peers that send the key. Credentials are forwarded unchanged and are checked by the leader. Only two kinds of
//! requests are sent twice: one that no server has processed, and a wait with a request id, by which the next leader
//! finds its place in the queue ([`repeat`]).

mod again;
mod hop;
mod reach;
mod refusal;
mod relay;
mod repeat;
mod tunnel;
mod under_way;
mod uplink;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use leasehold_auth::is_same;

use crate::cluster::Reached;
use leasehold_store::Peering;

pub(crate) use reach::keep_trying;
pub(crate) use refusal::{Unanswered, not_leader, tell_who_leads};
pub(crate) use relay::Relay;

/// Request header of clients that connect to the leader themselves: their requests are not forwarded.
pub(crate) const DIRECT: HeaderName = HeaderName::from_static("leasehold-direct");
/// Response header with the leader's address, for such clients.
pub(crate) const LEADER: HeaderName = HeaderName::from_static("leasehold-leader");
/// Response header with the shortest TTL, in milliseconds, that outlasts a leader change.
pub(crate) const FAILOVER_MS: HeaderName = HeaderName::from_static("leasehold-failover-ms");
/// A new leader takes over after 2 to 3.5 s, because the old leader's lease (2 s) has to expire. Clients renew
/// after a third of the TTL and stop their work before its end, so a lease outlasts that only if its TTL is about three
/// times as long.
pub(crate) const FAILOVER: HeaderValue = HeaderValue::from_static("10000");
/// How long a request was held before it was forwarded, in milliseconds.
const HELD_MS: HeaderName = HeaderName::from_static("leasehold-held-ms");
/// The key by which servers of the cluster authenticate each other.
const KEY: HeaderName = HeaderName::from_static("leasehold-peer-key");
/// Where a request came from, as an encoded [`hop::Hop`].
const HOP: HeaderName = HeaderName::from_static("leasehold-hop");
/// The id of a forwarded request.
const ID: HeaderName = HeaderName::from_static("leasehold-hop-id");
/// Response header that names the granted lease and its epoch, for the forwarding server.
const GRANT: HeaderName = HeaderName::from_static("leasehold-grant");
/// The sequence number of the leader's last record.
const SEQ: HeaderName = HeaderName::from_static("leasehold-seq");
/// Set if the receiving server does not lead or does not accept the peer. It has not processed the request.
const NOT_LEADING: HeaderName = HeaderName::from_static("leasehold-not-leading");

/// Headers that only peers can send. They are removed from client requests.
const OURS: [HeaderName; 4] = [HELD_MS, KEY, HOP, ID];

/// The key for authenticating peers.
pub(crate) struct Peers {
    /// The key that peers must send to this server.
    key: String,
    /// Whether the key was configured and is the same on all servers.
    is_given: bool,
}

impl Peers {
    pub(crate) fn new(reached: &Reached) -> Self {
        Self { key: reached.key.clone(), is_given: reached.is_given }
    }

    fn is_shown(&self, headers: &HeaderMap) -> bool {
        self.is_key(headers.get(KEY).map_or(&[], |shown| shown.as_bytes()))
    }

    fn is_key(&self, shown: &[u8]) -> bool {
        is_same(shown, self.key.as_bytes())
    }

    /// Returns the key to send to that server.
    fn key_of<'a>(&'a self, there: &'a Peering) -> &'a str {
        match &there.key {
            Some(key) if !self.is_given => key,
            _ => &self.key,
        }
    }
}
