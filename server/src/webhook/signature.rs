//! Signatures that prove the origin of a webhook message: HMAC-SHA256 over the time and the body.

use std::path::Path;

use hmac::Mac;

use crate::mac;

/// Minimum length of the secret. A shorter one could be guessed.
const BYTES_MIN: usize = 16;

/// The secret that signs messages. It is never shown.
pub(super) struct Secret(Vec<u8>);

impl Secret {
    /// Reads the secret from a file, without the line break at its end.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let secret = text.trim_ascii_end();
        if secret.len() < BYTES_MIN {
            let shown = file.display();
            return Err(format!("{shown}: the secret is shorter than {BYTES_MIN} bytes"));
        }
        Ok(Self(secret.to_vec()))
    }

    /// Returns `v1=` and the HMAC of `TIMESTAMP.BODY` in hexadecimal digits.
    pub(super) fn sign(&self, timestamp: i64, body: &[u8]) -> String {
        let mut mac = mac::keyed(&self.0);
        mac.update(format!("{timestamp}.").as_bytes());
        mac.update(body);
        let code = mac.finalize().into_bytes();
        code.iter().fold("v1=".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef`.
    const EXPECTED: &str = "v1=9eb18f493f8ec135d9eb2dad817c369bb4e9cbfa818657897a7437c1cd8c3a23";

    #[test]
    fn a_signature_covers_the_time_and_the_body() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secret");
        std::fs::write(&file, "0123456789abcdef\n").expect("written");
        let secret = Secret::read(&file).expect("long enough");
        assert_eq!(secret.sign(1_700_000_000, br#"{"a":1}"#), EXPECTED);
        assert_ne!(secret.sign(1_700_000_001, br#"{"a":1}"#), EXPECTED);
        assert_ne!(secret.sign(1_700_000_000, br#"{"a":2}"#), EXPECTED);
        std::fs::write(&file, "short\n").expect("written");
        assert!(Secret::read(&file).is_err_and(|why| why.contains("16 bytes")));
        assert!(Secret::read(&folder.path().join("none")).is_err());
    }
}
