//! What stands under the small keys: JSON, so that an operator can read it with `etcdctl`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store::{Hash, Place};

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
}

/// Who leads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct LeaderValue {
    /// Drawn anew for every time somebody leads: etcd's revisions repeat when it is restored from a snapshot.
    pub(super) nonce: String,
    /// The name of the node.
    pub(super) node: String,
    /// Where clients reach it.
    pub(super) address: String,
    /// What it runs.
    pub(super) version: String,
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
        format!("etcd: the value of {} cannot be read: {error}", String::from_utf8_lossy(key))
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
