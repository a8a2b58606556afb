//! Sign-ins in progress: the state that must match when the user comes back from the identity provider.
//!
//! The browser keeps that state in a signed cookie, so a sign-in that is never finished uses no memory on the server.
//! The server remembers only which attempts were used.

use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use leasehold_base::sync::lock;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::policy::hex;

/// Time limit for a sign-in.
pub const LASTS_SECONDS: i64 = 600;
/// Maximum attempts remembered as used. Beyond that the oldest are forgotten; the issuer rejects their codes anyway.
const USED_MAX: usize = 10_000;

/// The state of a sign-in in progress, kept in the browser's cookie.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// The name of the issuer where the user signs in.
    pub with: String,
    /// The random value (`state`) that must return with the authorization code.
    pub state: String,
    /// The random value that the ID token must contain.
    pub nonce: String,
    /// The PKCE code verifier.
    pub verifier: String,
    /// The page to open after the sign-in.
    pub to: String,
    /// The digest of the user's previous session, which ends with this sign-in.
    pub before: Option<String>,
    ends_ms: i64,
}

/// Signs and verifies attempts, and remembers which were used.
pub struct Attempts {
    secret: [u8; 32],
    used: Mutex<HashMap<String, i64>>,
}

impl Attempts {
    pub(super) fn new() -> Self {
        Self { secret: leasehold_base::random::bytes(), used: Mutex::default() }
    }

    /// Starts an attempt.
    pub fn begin(with: &str, to: &str, before: Option<String>, wall_ms: i64) -> Attempt {
        let draw = || hex(&leasehold_base::random::bytes::<32>());
        Attempt {
            with: with.into(),
            state: draw(),
            nonce: draw(),
            verifier: draw(),
            to: to.into(),
            before,
            ends_ms: wall_ms + LASTS_SECONDS * 1000,
        }
    }

    /// Returns the attempt as a signed cookie value.
    pub fn seal(&self, attempt: &Attempt) -> String {
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(attempt).unwrap_or_default());
        let code = URL_SAFE_NO_PAD.encode(self.mac(&text).finalize().into_bytes());
        format!("{text}.{code}")
    }

    /// Returns the attempt of a user who comes back from the issuer. Each attempt can be finished only once.
    pub fn finish(&self, cookie: &str, state: &str, wall_ms: i64) -> Option<Attempt> {
        let (text, code) = cookie.split_once('.')?;
        let code = URL_SAFE_NO_PAD.decode(code).ok()?;
        self.mac(text).verify_slice(&code).ok()?;
        let attempt = URL_SAFE_NO_PAD.decode(text).ok()?;
        let attempt: Attempt = serde_json::from_slice(&attempt).ok()?;
        if attempt.state != state || wall_ms >= attempt.ends_ms {
            return None;
        }
        let mut used = lock(&self.used);
        if used.len() >= USED_MAX {
            used.retain(|_, ends_ms| *ends_ms > wall_ms);
            let first = used.iter().min_by_key(|(_, ends_ms)| **ends_ms);
            if let Some(first) =
                first.map(|(state, _)| state.clone()).filter(|_| used.len() >= USED_MAX)
            {
                used.remove(&first);
            }
        }
        let is_new = used.insert(attempt.state.clone(), attempt.ends_ms).is_none();
        is_new.then_some(attempt)
    }

    fn mac(&self, text: &str) -> Hmac<Sha256> {
        let mut mac = match Hmac::<Sha256>::new_from_slice(&self.secret) {
            Ok(mac) => mac,
            Err(_) => unreachable!("a key of any length will do"),
        };
        mac.update(text.as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_counts_once_in_its_time_for_its_own_browser() {
        let attempts = Attempts::new();
        let begun = Attempts::begin("oidc", "/console", None, 1000);
        let sealed = attempts.seal(&begun);
        assert_eq!(attempts.finish(&sealed, "other", 1000), None, "another state");
        let forged = sealed.replacen('A', "B", 1);
        assert!(forged == sealed || attempts.finish(&forged, &begun.state, 1000).is_none());
        assert_eq!(attempts.finish("", &begun.state, 1000), None);
        assert_eq!(Attempts::new().finish(&sealed, &begun.state, 1000), None, "another server");
        assert_eq!(attempts.finish(&sealed, &begun.state, 601_000), None, "too late");
        assert_eq!(attempts.finish(&sealed, &begun.state, 600_999).as_ref(), Some(&begun));
        assert_eq!(attempts.finish(&sealed, &begun.state, 1000), None, "a second time");
        for _ in 0..USED_MAX + 5 {
            let begun = Attempts::begin("oidc", "/", None, 2000);
            assert!(attempts.finish(&attempts.seal(&begun), &begun.state, 2000).is_some());
        }
        assert!(attempts.used.lock().expect("not poisoned").len() <= USED_MAX);
    }
}
