//! Computes HMAC-SHA256 codes, which can be made only with a secret key.

use hmac::{Hmac, KeyInit};
use sha2::Sha256;

/// Returns an HMAC with this secret. The caller feeds it the message.
pub fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    match Hmac::new_from_slice(secret) {
        Ok(mac) => mac,
        Err(_) => unreachable!("a key of any length will do"),
    }
}
