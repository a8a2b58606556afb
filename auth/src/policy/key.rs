//! API keys: `lh_<id>_<secret>`. Only a hash of the secret is stored. The secret is 256 random bits, so a fast hash is
//! enough.

use sha2::{Digest, Sha256};

/// Prefix of every API key.
pub const PREFIX: &str = "lh_";
const ID_BYTES: usize = 5;
const SECRET_BYTES: usize = 32;

/// An API key as the key file stores it.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub name: std::sync::Arc<str>,
    pub(super) sha256: [u8; 32],
    /// When the key expires, in epoch milliseconds.
    pub(super) expires_ms: Option<i64>,
}

impl Key {
    /// Returns whether this is the key's secret. Takes the same time whatever the secret.
    pub(super) fn has_secret(&self, secret: &str) -> bool {
        is_same(&digest(secret), &self.sha256)
    }

    pub(super) fn is_expired(&self, wall_ms: i64) -> bool {
        self.expires_ms.is_some_and(|expires| wall_ms >= expires)
    }
}

/// A newly generated API key. Its secret is known only here.
pub struct NewKey {
    /// The public id of the key.
    pub id: String,
    /// The complete key, for the client that will use it.
    pub text: String,
    /// The SHA-256 hash of the secret, in hexadecimal.
    pub sha256: String,
}

impl NewKey {
    /// Generates a random key.
    pub fn draw() -> Self {
        let id: [u8; ID_BYTES] = leasehold_base::random::bytes();
        let secret: [u8; SECRET_BYTES] = leasehold_base::random::bytes();
        let (id, secret) = (hex(&id), hex(&secret));
        let sha256 = hex(&digest(&secret));
        Self { text: format!("{PREFIX}{id}_{secret}"), id, sha256 }
    }
}

/// Splits a key into its id and its secret.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(PREFIX)?.split_once('_')
}

/// Compares in constant time, so that the duration reveals nothing about secrets except their length.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let ((words, rest), (others, other_rest)) = (one.as_chunks::<16>(), other.as_chunks::<16>());
    let mut differences = 0;
    for (a, b) in words.iter().zip(others) {
        differences |= u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b);
    }
    for (a, b) in rest.iter().zip(other_rest) {
        differences |= u128::from(a ^ b);
    }
    std::hint::black_box(differences) == 0
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Returns the bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses 64 hexadecimal digits.
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_one_byte_is_not_the_same() {
        for n in [0, 1, 15, 16, 17, 31, 32, 100] {
            let one: Vec<u8> = (0..n).collect();
            assert!(is_same(&one, &one.clone()), "{n}");
            assert!(!is_same(&one, &[&one[..], &[0]].concat()), "{n}: one is longer");
            for at in 0..one.len() {
                let mut other = one.clone();
                other[at] ^= 0x40;
                assert!(!is_same(&one, &other), "{n}: byte {at}");
            }
        }
    }
}
