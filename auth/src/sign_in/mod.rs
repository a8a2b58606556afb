//! Console sessions of users who signed in with a browser.
//!
//! Sessions are kept in memory only: after a restart, users sign in again.

pub mod attempt;
pub mod cookie;

use std::collections::HashMap;
use std::sync::RwLock;

use http::HeaderMap;
use leasehold_base::sync::{read, write};
use sha2::{Digest as _, Sha256};

use super::credential::Bad;
use super::gate::Authority;
use super::issuer::Digest;
use super::policy::{hex, unhex};
use super::{Principal, Way};
use attempt::Attempts;

/// Maximum sessions per principal. A further sign-in ends the oldest session.
const PER_PRINCIPAL_MAX: usize = 20;

/// All console sessions.
pub struct SignIns {
    sessions: RwLock<HashMap<Digest, Session>>,
    n_max: usize,
    attempts: Attempts,
}

struct Session {
    /// The principal with the credential from the sign-in.
    by: Principal,
    /// The principal with the session as its credential.
    shown: Principal,
    began_ms: i64,
}

impl SignIns {
    pub(super) fn new(n_max: usize) -> Self {
        Self { sessions: RwLock::default(), n_max, attempts: Attempts::new() }
    }

    /// Returns the sign-ins in progress.
    pub fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// Returns the principal of the session cookie in this request, if there is one.
    pub(super) fn of(
        &self,
        headers: &HeaderMap,
        authority: &Authority,
        way: &Way<'_>,
        wall_ms: i64,
    ) -> Result<Option<Principal>, Bad> {
        let Some(secret) = cookie::only(headers, cookie::SESSION)? else { return Ok(None) };
        if way.is_of_other_page {
            return Ok(None);
        }
        if !way.is_private {
            return Err(
                "a sign-in counts only over TLS, on this machine, or by a trusted proxy that says https",
            );
        }
        let sessions = read(&self.sessions);
        let session = sessions.get(&digest(secret)).filter(|session| {
            !session.shown.is_over(wall_ms) && authority.vouches(&session.by, wall_ms)
        });
        session
            .map(|session| Some(session.shown.clone()))
            .ok_or("your sign-in has ended; sign in again at /console/sign-in")
    }

    /// Returns whether the session with this id still exists and is valid.
    pub(super) fn is_there(&self, id: &str, authority: &Authority, wall_ms: i64) -> bool {
        let Some(digest) = unhex(id) else { return false };
        let sessions = read(&self.sessions);
        sessions.get(&digest).is_some_and(|session| {
            !session.shown.is_over(wall_ms) && authority.vouches(&session.by, wall_ms)
        })
    }

    /// Starts a session that ends at `ends_ms`. Returns the value for its cookie, or `None` if there are too many
    /// sessions.
    pub fn begin(&self, by: Principal, ends_ms: i64, wall_ms: i64) -> Option<String> {
        let secret = hex(&leasehold_base::random::bytes::<32>());
        let digest = digest(&secret);
        let shown = Principal::until(
            by.name().clone(),
            by.groups().to_vec(),
            format!("console:{}", hex(&digest)).into(),
            Some(ends_ms),
        );
        let mut sessions = write(&self.sessions);
        sessions.retain(|_, session| !session.shown.is_over(wall_ms));
        let own = sessions.iter().filter(|(_, session)| session.by.name() == by.name());
        let first = own.clone().min_by_key(|(_, session)| session.began_ms).map(|(id, _)| *id);
        if own.count() >= PER_PRINCIPAL_MAX {
            first.and_then(|first| sessions.remove(&first));
        }
        if sessions.len() >= self.n_max {
            return None;
        }
        sessions.insert(digest, Session { by, shown, began_ms: wall_ms });
        Some(secret)
    }

    /// Returns the number of sessions, including those that ended since the last sign-in.
    pub fn count(&self) -> usize {
        read(&self.sessions).len()
    }

    /// Ends the session with this cookie value.
    pub fn end(&self, secret: &str) {
        self.end_of(&digest(secret));
    }

    /// Ends the session with this digest.
    pub fn end_of(&self, digest: &Digest) {
        write(&self.sessions).remove(digest);
    }
}

/// Returns the digest that identifies a session. Unlike the secret, it is not a credential.
pub fn digest(secret: &str) -> Digest {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_so_many_are_signed_in() {
        let sign_ins = SignIns::new(25);
        let begin = |name: &str, at| {
            let by = Principal::known(format!("key:{name}").into(), Vec::new(), "k".into());
            sign_ins.begin(by, at + 1000, at)
        };
        let n = || sign_ins.sessions.read().expect("not poisoned").len();
        for at in 0..50 {
            assert!(begin("a", at).is_some());
        }
        assert_eq!(n(), PER_PRINCIPAL_MAX, "one's own first is signed out");
        for name in ["b", "c", "d", "e", "f"] {
            assert!(begin(name, 50).is_some(), "{name}");
        }
        assert_eq!(begin("g", 50), None, "a new session ends no other principal's session");
        assert!(begin("g", 1050).is_some(), "what has ended makes room");
        assert_eq!(n(), 1);
    }
}
