//! What stands under the small keys: JSON, so that an operator can read it with `etcdctl`.

use leasehold_core::mutant;
use leasehold_etcd::KeyValue;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Hash, Leader, Obstacle, Peering, Place, Unreached};

/// The format of keys and values. A store of a newer one is refused.
pub(super) const FORMAT: u32 = 1;

/// Which store it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Id {
    /// Never changes.
    pub(super) store: String,
    /// Another one after the store was restored from a backup.
    pub(super) generation: u64,
    /// The format of everything in it.
    pub(super) format: u32,
    /// The last record that was not written in this generation: after a restore or a move the journal goes on from it.
    #[serde(default)]
    pub(super) start: u64,
    /// How often the store was restored from a backup.
    #[serde(default)]
    pub(super) n_restores: u64,
}

impl Id {
    /// A generation of a store that goes on after this record.
    pub(super) fn new(store: [u8; 16], start: u64, n_restores: u64) -> Self {
        // Shown to clients as a number that JavaScript can hold.
        let generation = u64::from_le_bytes(leasehold_base::random::bytes()) >> 11;
        Self { store: hex(&store), generation, format: FORMAT, start, n_restores }
    }
}

/// What a node is not to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drained {
    /// It does not lead.
    OfLeading,
    /// It does not lead and takes no new connections.
    Wholly,
    /// It does not lead, because other servers could not reach it when it led.
    Unreached,
}

impl Drained {
    /// As it stands in etcd.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::OfLeading => "step-down",
            Self::Wholly => "drain",
            Self::Unreached => "handed-over",
        }
    }
}

/// Where a store has moved to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ClosedValue {
    /// A folder or the address of another store.
    pub(super) moved_to: String,
}

/// Where a store has moved to, as the key says.
pub(super) fn moved_to(found: &KeyValue) -> String {
    let value = decode::<ClosedValue>(&found.key, &found.value);
    value.map_or_else(|_| "another place".into(), |value| value.moved_to)
}

/// Who has found that etcd was put back to an earlier state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RewoundValue {
    pub(super) node: String,
    pub(super) why: String,
    /// How often the store had been restored, as that node remembers: the next restore has to know.
    #[serde(default)]
    pub(super) n_restores: u64,
}

/// Who leads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct LeaderValue {
    /// Drawn anew for every time somebody leads: etcd's revisions repeat when it is restored from a snapshot.
    pub(super) nonce: String,
    /// The name of the node.
    pub(super) node: String,
    /// Which of those that may be called so: drawn once for each data folder.
    #[serde(default)]
    pub(super) instance: String,
    /// Where clients reach it.
    pub(super) address: String,
    /// Where the other servers reach it, and what they have to show there.
    #[serde(flatten)]
    pub(super) peer: PeerValue,
    /// The format of what it writes.
    #[serde(default)]
    pub(super) format: u32,
    /// What it runs.
    pub(super) version: String,
}

impl LeaderValue {
    /// With a nonce of its own.
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

/// Where the other servers reach a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct PeerValue {
    /// HOST:PORT; empty: nowhere.
    #[serde(default, rename = "peer", skip_serializing_if = "String::is_empty")]
    pub(super) address: String,
    /// What they have to show there, unless all of them have been given that in a file.
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

/// Who leads, as the key says.
pub(super) fn leader_in(found: &KeyValue) -> Option<Leader> {
    let LeaderValue { node, address, peer, .. } = decode(&found.key, &found.value).ok()?;
    let (seat, peering) = (found.create_revision, peer.peering());
    Some(Leader { node: node.into(), address: address.into(), peering, seat })
}

/// One of the servers, as it describes itself under its own key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct NodeValue {
    /// Drawn once for each data folder: two servers of one name differ by it.
    pub(super) instance: String,
    /// Drawn by each process.
    pub(super) process: String,
    /// Where clients reach it.
    pub(super) address: String,
    /// Where the other servers reach it.
    pub(super) peer: String,
    /// What it runs.
    pub(super) version: String,
    /// The formats it can read.
    pub(super) formats: Vec<u32>,
    /// The last record it has read or written.
    pub(super) seq: u64,
    /// For how many seconds it has not read everything there was.
    #[serde(default)]
    pub(super) behind_s: u64,
    /// It never leads.
    #[serde(default, skip_serializing_if = "is_no")]
    pub(super) never_leads: bool,
    /// The leader that it cannot reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unreached: Option<UnreachedValue>,
}

fn is_no(is_so: &bool) -> bool {
    !is_so
}

/// A leader that a server cannot reach.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct UnreachedValue {
    /// The name of its node.
    pub(super) leader: String,
    /// The revision in which it took the seat.
    pub(super) seat: i64,
    /// Why.
    pub(super) why: Obstacle,
    /// For how long, when the key was written.
    pub(super) for_ms: u64,
    /// The number of this run of failed tries in its process.
    pub(super) run: u64,
}

impl UnreachedValue {
    /// Returns the report after the last one. It changes only when something happens, so the key is rarely written.
    pub(super) fn after(before: Option<&Self>, now: Option<Unreached>) -> Option<Self> {
        let Unreached { leader, seat, why, span, run } = now?;
        let same = before.filter(|before| before.run == run && before.why == why);
        let for_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let new = || Self { leader: leader.into(), seat, why, for_ms, run };
        Some(same.cloned().unwrap_or_else(new))
    }
}

/// How far the journal goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct HeadValue {
    /// The number of the last record; 0: there is none yet.
    pub(super) seq: u64,
    /// Its hash.
    pub(super) hash: String,
}

impl HeadValue {
    pub(super) fn of(place: Place) -> Self {
        Self { seq: place.seq, hash: hex(&place.hash.0) }
    }

    pub(super) fn place(&self) -> Option<Place> {
        Some(Place { seq: self.seq, hash: Hash(unhex(&self.hash)?) })
    }
}

/// As bytes.
pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
    // Structs of numbers and texts always become JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

/// From bytes; the error says under which key they stood.
pub(super) fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| {
        format!(
            "etcd: the value of {} cannot be read: {error}. Nobody but Leasehold may write there (leasehold cluster \
             status)",
            String::from_utf8_lossy(key)
        )
    })
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
        let head: HeadValue = decode(b"head", &bytes).expect("a head");
        assert_eq!(head.place(), Some(place));
        assert_eq!(unhex("12"), None);
        assert_eq!(unhex(&"+1".repeat(16)), None);
        assert!(decode::<HeadValue>(b"/a/head", b"{").expect_err("damage").contains("/a/head"));
    }
}
