//! A hash that detects damage. It does not protect against attackers who can write to the store, because they could
//! also write matching hashes.

use std::fmt;

use twox_hash::XxHash3_128;

/// A hash of 128 bits, so that accidental damage always changes it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Hash(pub [u8; Hash::BYTES]);

impl Hash {
    /// The length of a hash in bytes.
    pub const BYTES: usize = 16;

    /// Returns the hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(XxHash3_128::oneshot(bytes).to_le_bytes())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}
