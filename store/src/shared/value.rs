//! The values of the small entries. They are JSON, so that an operator can read them with the tools of the system that
//! keeps the store.

use std::fmt::Display;

use leasehold_core::mutant;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::backend::{Backend, Entry, LeaderEntry};
use crate::{Hash, Leader, Obstacle, Peering, Place, Unreached};

/// The format of keys and values. Stores in a newer format are rejected.
pub(super) const FORMAT: u32 = 1;

/// Identifies the store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Id {
    /// The id of the store. It never changes.
    pub(super) store: String,
    /// Changes whenever the store is restored from a backup or migrated.
    pub(super) generation: u64,
    /// The format of all keys and values.
    pub(super) format: u32,
    /// The last record that was written before this generation. After a restore or a migration, the journal continues
    /// from it.
    #[serde(default)]
    pub(super) start: u64,
    /// How often the store was restored from a backup.
    #[serde(default)]
    pub(super) n_restores: u64,
}

impl Id {
    /// Returns the id of a new generation, which continues after this record.
    pub(super) fn new(store: [u8; 16], start: u64, n_restores: u64) -> Self {
        // Limited to 53 bits, because clients receive it as a number and JavaScript can represent only so many.
        let generation = u64::from_le_bytes(leasehold_base::random::bytes()) >> 11;
        Self { store: hex(&store), generation, format: FORMAT, start, n_restores }
    }
}

/// How a node is drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drained {
    /// The server does not lead.
    OfLeading,
    /// The server does not lead and takes no new connections.
    Wholly,
    /// The server does not lead, because other servers could not reach it when it led.
    Unreached,
}

impl Drained {
    /// Returns the word that the store uses for this value.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::OfLeading => "step-down",
            Self::Wholly => "drain",
            Self::Unreached => "handed-over",
        }
    }
}

/// The location that a store has moved to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ClosedValue {
    /// A data directory, or the URL of another store.
    pub(super) moved_to: String,
}

/// Returns the new location of a store that was migrated, from the value of its `closed` entry.
pub(super) fn moved_to(found: &[u8]) -> String {
    let value = serde_json::from_slice::<ClosedValue>(found);
    value.map_or_else(|_| "another place".into(), |value| value.moved_to)
}

/// The report of a server that the store was rolled back to an earlier state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RewoundValue {
    pub(super) node: String,
    pub(super) why: String,
    /// How often the store had been restored, as far as that node remembers. The next restore needs this number.
    #[serde(default)]
    pub(super) n_restores: u64,
}

/// The leader, as described by its entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct LeaderValue {
    /// A random value for each leadership, because the numbers of leaderships can repeat after the system that keeps
    /// the store was restored from a snapshot.
    pub(super) nonce: String,
    pub(super) node: String,
    /// The random instance id of the node's data directory, which distinguishes nodes with the same name.
    #[serde(default)]
    pub(super) instance: String,
    /// The URL at which clients reach it.
    pub(super) address: String,
    /// The address at which the other servers reach it, and the key they need there.
    #[serde(flatten)]
    pub(super) peer: PeerValue,
    /// The format in which it writes.
    #[serde(default)]
    pub(super) format: u32,
    pub(super) version: String,
}

impl LeaderValue {
    /// Returns a description with a new nonce.
    pub(super) fn new(node: &str, address: &str) -> Self {
        let drawn: [u8; 16] = leasehold_base::random::bytes();
        let nonce = if mutant!(NonceNotDrawn) { [7; 16] } else { drawn };
        Self {
            nonce: hex(&nonce),
            node: node.into(),
            instance: String::new(),
            address: address.into(),
            peer: PeerValue::default(),
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// The address at which the other servers reach a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct PeerValue {
    /// HOST:PORT. Empty: the other servers cannot reach it.
    #[serde(default, rename = "peer", skip_serializing_if = "String::is_empty")]
    pub(super) address: String,
    /// The key that the other servers have to present, unless all servers have a common key in a file.
    #[serde(default, rename = "peer_key", skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

impl PeerValue {
    pub(super) fn of(peering: Option<&Peering>) -> Self {
        let Some(Peering { address, key }) = peering else { return Self::default() };
        Self { address: address.to_string(), key: key.as_deref().map(Into::into) }
    }

    pub(super) fn peering(self) -> Option<Peering> {
        let Self { address, key } = self;
        (!address.is_empty()).then(|| Peering { address: address.into(), key: key.map(Into::into) })
    }
}

/// Decodes the entry of the leader.
pub(super) fn leader_in(found: &LeaderEntry) -> Option<Leader> {
    let LeaderValue { node, address, peer, .. } = serde_json::from_slice(&found.value).ok()?;
    let (seat, peering) = (found.number, peer.peering());
    Some(Leader { node: node.into(), address: address.into(), peering, seat })
}

/// A server, as described by its own entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct NodeValue {
    /// The random instance id of its data directory, which distinguishes servers with the same name.
    pub(super) instance: String,
    /// A random id of its process.
    pub(super) process: String,
    /// The URL at which clients reach it.
    pub(super) address: String,
    /// The address at which the other servers reach it.
    pub(super) peer: String,
    pub(super) version: String,
    /// The formats it can read.
    pub(super) formats: Vec<u32>,
    /// The last record it has read or written.
    pub(super) seq: u64,
    /// For how many seconds it has not been up to date.
    #[serde(default)]
    pub(super) behind_s: u64,
    #[serde(default, skip_serializing_if = "is_no")]
    pub(super) never_leads: bool,
    /// The leader that it cannot reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unreached: Option<UnreachedValue>,
}

fn is_no(is_so: &bool) -> bool {
    !is_so
}

/// A report that a server cannot reach the leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct UnreachedValue {
    /// The name of the leader's node.
    pub(super) leader: String,
    /// The number of its leadership.
    pub(super) seat: i64,
    pub(super) why: Obstacle,
    /// For how long it had not been reached when the entry was written.
    pub(super) for_ms: u64,
    /// The number of this run of failed tries in its process.
    pub(super) run: u64,
}

impl UnreachedValue {
    /// Returns the report after the last one. It changes only when something happens, so the entry is rarely written.
    pub(super) fn after(before: Option<&Self>, now: Option<Unreached>) -> Option<Self> {
        let Unreached { leader, seat, why, span, run } = now?;
        let same = before.filter(|before| before.run == run && before.why == why);
        let for_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let new = || Self { leader: leader.into(), seat, why, for_ms, run };
        Some(same.cloned().unwrap_or_else(new))
    }
}

/// The position of the journal's last record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct HeadValue {
    /// The number of the last record, or 0 if there is no record yet.
    pub(crate) seq: u64,
    /// The hash of the last record.
    pub(super) hash: String,
}

impl HeadValue {
    pub(crate) fn of(place: Place) -> Self {
        Self { seq: place.seq, hash: hex(&place.hash.0) }
    }

    pub(crate) fn place(&self) -> Option<Place> {
        Some(Place { seq: self.seq, hash: Hash(unhex(&self.hash)?) })
    }
}

pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    // Structs of numbers and texts can always be encoded as JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Decodes the value of an entry. The error names the entry.
pub(super) fn decode<T: DeserializeOwned>(
    backend: &dyn Backend,
    entry: Entry<'_>,
    bytes: &[u8],
) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| unreadable(backend, entry, &error))
}

/// Returns the error for an entry whose value cannot have been written by a server.
pub(super) fn unreadable(backend: &dyn Backend, entry: Entry<'_>, why: &dyn Display) -> String {
    format!(
        "{}: cannot read the value of {}: {why}. Only Leasehold may write there (leasehold cluster status)",
        backend.system(),
        backend.name_of(entry)
    )
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<[u8; 16]> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_as_it_was() {
        let place = Place { seq: 12, hash: Hash([0xAB; 16]) };
        let bytes = encode(&HeadValue::of(place));
        let head: HeadValue = serde_json::from_slice(&bytes).expect("a head");
        assert_eq!(head.place(), Some(place));
        assert_eq!(unhex("12"), None);
        assert_eq!(unhex(&"+1".repeat(16)), None);
    }
}
