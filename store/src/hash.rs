//! A hash that sees damage. It does not keep out people who can write to the store: they could write hashes too.

use std::fmt;

use twox_hash::XxHash3_128;

/// 128 bits: nothing that is changed by accident keeps its hash.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Hash(pub [u8; Hash::BYTES]);

impl Hash {
    /// How long it is.
    pub const BYTES: usize = 16;

    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(XxHash3_128::oneshot(bytes).to_le_bytes())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}
