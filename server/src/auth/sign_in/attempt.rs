//! Somebody is about to sign in elsewhere: what has to be the same when they come back.
//!
//! It is kept by their browser, signed, so that whoever only begins takes up no memory here. That it was used is kept
//! here.

use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::auth::policy::hex;
use crate::sync::lock;

/// How long signing in may take.
pub(crate) const LASTS_SECONDS: i64 = 600;
/// Most that are remembered as used. Beyond that the first are forgotten; their codes are used up at the issuer.
const USED_MAX: usize = 10_000;

/// What a browser keeps meanwhile.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// Where they sign in: the name of an issuer.
    pub(crate) with: String,
    pub(crate) state: String,
    pub(crate) nonce: String,
    pub(crate) verifier: String,
    /// Where they want to go then.
    pub(crate) to: String,
    /// The session they had before, by its digest: it ends.
    pub(crate) before: Option<String>,
    ends_ms: i64,
}

/// What attempts are signed with, and which were used.
pub(crate) struct Attempts {
    secret: [u8; 32],
    used: Mutex<HashMap<String, i64>>,
}

impl Attempts {
    pub(super) fn new() -> Self {
        Self { secret: crate::random::bytes(), used: Mutex::default() }
    }

    /// One that begins now.
    pub(crate) fn begin(with: &str, to: &str, before: Option<String>, wall_ms: i64) -> Attempt {
        let draw = || hex(&crate::random::bytes::<32>());
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

    /// As the cookie has it.
    pub(crate) fn seal(&self, attempt: &Attempt) -> String {
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(attempt).unwrap_or_default());
        let code = URL_SAFE_NO_PAD.encode(self.mac(&text).finalize().into_bytes());
        format!("{text}.{code}")
    }

    /// The attempt somebody comes back from, once.
    pub(crate) fn finish(&self, cookie: &str, state: &str, wall_ms: i64) -> Option<Attempt> {
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
        assert!(attempts.used.lock().expect("nobody panicked").len() <= USED_MAX);
    }
}
