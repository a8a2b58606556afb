//! Token issuers: OpenID providers, and other services that sign tokens (JWT) or resolve opaque tokens.
//!
//! The result of checking a token is cached by the token's hash until the token expires. While an issuer is
//! unreachable, its last known keys stay in use, up to `auth-keys-age-max`.

mod cache;
mod claims;
pub mod fetch;
mod introspection;
mod json;
mod key;
mod keys;
mod sign_in;
mod token;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use leasehold_base::sync::lock;
use leasehold_core::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use cache::Cache;
pub use cache::Digest;
use claims::Claims;
pub use fetch::encode;
use introspection::Looked;
pub(crate) use key::{Algorithm, Key, KeyRing};
use keys::Keys;
pub use keys::KeysState;
pub use sign_in::Code;
use token::Token;

use super::Principal;
use super::gate::{Bounds, Gate};
use super::policy::Oidc;
use super::remembered::Term;

/// Maximum concurrent introspection requests to one issuer; further requests wait.
const QUESTIONS_MAX: usize = 32;
/// Minimum time between two log lines about an unavailable issuer.
const COMPLAIN_EVERY_MS: u64 = 10_000;

/// A token issuer with its keys and cached tokens.
pub struct Issuer {
    config: Oidc,
    /// Hash of the issuer's URL, part of its credential ids. It distinguishes issuers that had the same name at
    /// different times.
    mark: String,
    keys: Keys,
    /// Maximum age of keys that cannot be fetched again.
    keys_age_max: Duration,
    /// Signed tokens that were valid.
    tokens: Cache<Principal>,
    /// How often `tokens` was cleared.
    n_forgotten: AtomicU64,
    /// Results of introspecting opaque tokens.
    looked: Cache<Looked>,
    questions: Semaphore,
    complained: Mutex<Option<Timestamp>>,
    /// Notified when keys of this issuer are withdrawn, so that callers are re-checked.
    gate: Weak<Gate>,
}

/// The state of an issuer, for metrics.
pub struct IssuerState {
    /// The state of its keys.
    pub keys: KeysState,
    /// Number of cached tokens.
    pub n_tokens: usize,
}

/// Why a token is not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// The token is invalid.
    Bad(String),
    /// The token cannot be checked now.
    Unknown(String),
    /// The client caused too many token lookups. It can retry after this duration.
    TooOften(String, Duration),
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "issuer {:?}", self.config.name)
    }
}

impl Issuer {
    /// Creates an issuer. Its keys are fetched later.
    pub(super) fn new(config: Oidc, bounds: Bounds, gate: Weak<Gate>) -> Self {
        let Bounds { tokens_max, keys_age_max, .. } = bounds;
        let mark = super::policy::hex(&Sha256::digest(&config.issuer)[..4]);
        let keys = Keys::new(&config);
        let (tokens, looked) = (Cache::new(tokens_max), Cache::new(tokens_max));
        let questions = Semaphore::new(QUESTIONS_MAX);
        let (n_forgotten, complained) = (AtomicU64::new(0), Mutex::default());
        Self {
            config,
            mark,
            keys,
            keys_age_max,
            tokens,
            n_forgotten,
            looked,
            questions,
            complained,
            gate,
        }
    }

    /// Returns the settings of the issuer.
    pub fn config(&self) -> &Oidc {
        &self.config
    }

    /// Returns whether this principal came from a token of this issuer whose signing key has not been withdrawn.
    pub(super) fn vouches(&self, who: &Principal) -> bool {
        let name = who.name().split_once(':').map(|(name, _)| name);
        let mark = who.credential().strip_prefix("oidc:").and_then(|rest| rest.split(':').next());
        let is_its_own = name == Some(&self.config.name) && mark == Some(&self.mark);
        is_its_own && who.key().is_none_or(|key| self.keys.count(key))
    }

    /// Returns the credential id for logs and sessions.
    fn credential(&self, digest: &Digest) -> Arc<str> {
        format!("oidc:{}:{}", self.mark, super::policy::hex(&digest[..8])).into()
    }

    /// Returns the cached principal of this token, and how long the result is valid.
    pub(super) fn known(
        self: &Arc<Self>,
        digest: &Digest,
        wall_ms: i64,
    ) -> Option<(Principal, Term)> {
        // Read before the caches: if the cache is cleared from here on, the term ends.
        let n_forgotten = self.n_forgotten();
        let is_good = |known: &Principal| !known.is_over(wall_ms);
        let (principal, looked_until) = match self.tokens.get(digest).filter(is_good) {
            Some(known) => (known, None),
            None => match self.looked.get(digest)? {
                Looked::Active(known, until) if wall_ms < until && is_good(&known) => {
                    (known, Some(until))
                }
                Looked::Active(..) | Looked::Inactive(_) => return None,
            },
        };
        let mut term = Term::default();
        term.end(principal.ends_ms());
        term.end(looked_until);
        term.bind(self, n_forgotten);
        Some((principal, term))
    }

    /// Returns how often the cache of signed tokens was cleared.
    pub(super) fn n_forgotten(&self) -> u64 {
        self.n_forgotten.load(Ordering::Acquire)
    }

    /// Clears the cache of signed tokens, because a key that signed some of them might be gone.
    fn forget_tokens(&self) {
        self.tokens.clear();
        // Counted after the clear: a reader that still found an entry then sees that its count is outdated.
        self.n_forgotten.fetch_add(1, Ordering::AcqRel);
        self.have_looked_again();
    }

    /// Makes connections, waits and streams re-check whether their tokens are still valid.
    fn have_looked_again(&self) {
        if let Some(gate) = self.gate.upgrade() {
            gate.ring();
        }
    }

    /// Checks a signed token and returns its principal.
    async fn verify(
        self: &Arc<Self>,
        token: &Token<'_>,
        digest: &Digest,
        asked: &Asked<'_>,
    ) -> Result<Principal, Doubt> {
        let bad = |why: &str| Doubt::Bad(why.into());
        if !self.config.algorithms.contains(&token.algorithm) {
            return Err(bad("the token's algorithm is not allowed (algorithms)"));
        }
        let claims = Claims { members: &token.claims, config: &self.config };
        // Checked before the keys are fetched, so that an unusable token causes no request to the issuer.
        let ends = claims.check(&self.config.audiences, asked.wall_ms).map_err(bad)?;
        claims.refuse_id_token().map_err(bad)?;
        let principal = claims.principal(self.credential(digest), Some(ends)).map_err(bad)?;
        let ring = self.keys.with(self, token.key_id.as_deref(), asked).await?;
        let Token { algorithm, key_id, message, signature, .. } = token;
        let key = ring.verify(key_id.as_deref(), *algorithm, message, signature);
        let principal =
            principal.signed_by(key.ok_or_else(|| bad("the token's signature is wrong"))?);
        self.tokens.insert(*digest, principal.clone());
        // The keys changed in the meantime: a token signed with a withdrawn key must not stay cached.
        if !Arc::ptr_eq(&ring, &self.keys.ring()) {
            self.forget_tokens();
        }
        Ok(principal)
    }

    /// Logs that the issuer is unavailable, at most every ten seconds.
    fn complain(&self, why: &str, now: Timestamp) {
        let mut complained = lock(&self.complained);
        if complained.is_none_or(|at| now.since(at).as_millis() >= COMPLAIN_EVERY_MS) {
            *complained = Some(now);
            tracing::warn!(issuer = self.config.issuer, why, "an issuer does not respond");
        }
    }

    pub(super) fn state(&self, now: Timestamp) -> IssuerState {
        let n_tokens = self.tokens.len() + self.looked.len();
        IssuerState { keys: self.keys.state(now), n_tokens }
    }

    /// Drops the issuer's keys if they are too old. Its tokens are rejected from then on.
    fn expire_keys(&self, now: Timestamp) {
        if self.keys.expire(now, self.keys_age_max) {
            self.forget_tokens();
            let (issuer, age_max) = (&self.config.issuer, self.keys_age_max);
            tracing::error!(
                issuer,
                ?age_max,
                "issuer keys are too old and cannot be fetched; dropping them (auth-keys-age-max)"
            );
        }
    }

    /// Starts a refresh of the keys if it is due.
    pub(super) fn tend(self: &Arc<Self>, now: Timestamp) {
        self.expire_keys(now);
        if self.keys.are_due(now) {
            tokio::spawn(self.clone().refresh(now));
        }
    }

    async fn refresh(self: Arc<Self>, now: Timestamp) -> Result<(), String> {
        self.keys.refresh(&self, now).await
    }
}

/// What a token check needs to know about its request.
pub(super) struct Asked<'a> {
    pub(super) now: Timestamp,
    pub(super) wall_ms: i64,
    /// Counts a token lookup for the client. Fails if the client has reached its limit.
    pub(super) may_look_up: &'a (dyn Fn() -> Result<(), Doubt> + Sync),
}

/// Returns the hash under which a token is cached.
pub(super) fn digest(token: &str) -> Digest {
    Sha256::digest(token).into()
}

/// Checks a token with the issuer it is from, and returns its principal.
pub(super) async fn identify(
    issuers: &[Arc<Issuer>],
    text: &str,
    digest: &Digest,
    asked: &Asked<'_>,
) -> Result<Principal, Doubt> {
    if !token::is_signed(text) {
        let introspects = |issuer: &&Arc<Issuer>| issuer.config.introspection.is_some();
        return match issuers.iter().find(introspects) {
            Some(issuer) => issuer.look_up(text, digest, asked).await,
            None => Err(Doubt::Bad("unknown credential".into())),
        };
    }
    let token = Token::parse(text).map_err(|why| Doubt::Bad(why.into()))?;
    let issuer = token.issuer();
    let issuer = issuers.iter().find(|known| Some(known.config.issuer.as_str()) == issuer);
    let Some(issuer) = issuer else {
        return Err(Doubt::Bad("the token is from an unknown issuer".into()));
    };
    issuer.verify(&token, digest, asked).await
}
