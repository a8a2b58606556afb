//! Codes that only whoever has a secret can make: HMAC-SHA256.

use hmac::{Hmac, KeyInit};
use sha2::Sha256;

/// With this secret, of whatever is fed to it.
pub(crate) fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    match Hmac::new_from_slice(secret) {
        Ok(mac) => mac,
        Err(_) => unreachable!("a key of any length will do"),
    }
}
