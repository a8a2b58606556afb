//! The other servers of a shared store. Whoever does not lead passes what it is asked on to the one that does, over
//! HTTP/2 on a listener that only they use.
//!
//! What goes along says where a request came from and how long it was held ([`hop`]); it is believed only from those
//! who show the key. Credentials go along as they are, and count where the request is answered. Only two things are
//! sent twice: a request that no server has looked at, and a wait with a request id, by which the next leader knows its
//! place ([`repeat`]).

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

use crate::auth::is_same;
use crate::cluster::Reached;
use crate::store::Peering;

pub(crate) use reach::keep_trying;
pub(crate) use refusal::{Unanswered, not_leader, tell_who_leads};
pub(crate) use relay::Relay;
pub(crate) use tunnel::{OPENING, OPENING_BYTES_MAX, Passage, Tunnelled};
pub(crate) use uplink::PING_EVERY;

/// A client that would rather ask the one that leads itself than have its requests passed on.
pub(crate) const DIRECT: HeaderName = HeaderName::from_static("leasehold-direct");
/// Where the one is that leads, for those.
pub(crate) const LEADER: HeaderName = HeaderName::from_static("leasehold-leader");
/// A header for clients: the shortest TTL, in milliseconds, that outlasts a leader change.
pub(crate) const FAILOVER_MS: HeaderName = HeaderName::from_static("leasehold-failover-ms");
/// A new leader takes over after 2 to 3.5 s, because the old leader's seat in etcd (2 s) has to expire. Clients renew
/// after a third of the TTL and stop their work before its end, so a lease outlasts that only if its TTL is about three
/// times as long.
pub(crate) const FAILOVER: HeaderValue = HeaderValue::from_static("10000");
/// How long a request was held before it was passed on.
const HELD_MS: HeaderName = HeaderName::from_static("leasehold-held-ms");
/// What servers know each other by.
const KEY: HeaderName = HeaderName::from_static("leasehold-peer-key");
/// Where a request came from.
const HOP: HeaderName = HeaderName::from_static("leasehold-hop");
/// What a request is called between two servers.
const ID: HeaderName = HeaderName::from_static("leasehold-hop-id");
/// An answer that grants something says to the server it goes through: what, and in which epoch.
const GRANT: HeaderName = HeaderName::from_static("leasehold-grant");
/// The last record of the one that leads.
const SEQ: HeaderName = HeaderName::from_static("leasehold-seq");
/// The server that was asked does not lead, or does not know who asks. It has not looked at the request.
const NOT_LEADING: HeaderName = HeaderName::from_static("leasehold-not-leading");

/// What none but a server may say to another.
const OURS: [HeaderName; 4] = [HELD_MS, KEY, HOP, ID];

/// What servers know each other by.
pub(crate) struct Peers {
    /// What has to be shown here.
    key: String,
    /// It is the same everywhere.
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

    /// What has to be shown there.
    fn key_of<'a>(&'a self, there: &'a Peering) -> &'a str {
        match &there.key {
            Some(key) if !self.is_given => key,
            _ => &self.key,
        }
    }
}
