//! Those whose tokens are believed: OpenID providers, and anybody else who signs tokens (JWT) or vouches for them.
//!
//! What a token proves is found out once and remembered by its hash until it expires. The keys of an issuer are kept
//! for as long as it does not answer.

mod cache;
mod claims;
pub(crate) mod fetch;
mod introspection;
mod json;
mod key;
mod keys;
mod sign_in;
mod token;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use leasehold_core::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use cache::Cache;
pub(crate) use cache::Digest;
use claims::Claims;
pub(crate) use fetch::encode;
use introspection::Looked;
pub(crate) use key::{Algorithm, Key, KeyRing};
use keys::Keys;
pub(crate) use keys::KeysState;
pub(crate) use sign_in::Code;
use token::Token;

use super::Principal;
use super::gate::{Bounds, Gate};
use super::policy::Oidc;
use super::remembered::Term;
use crate::sync::lock;

/// Most questions to one issuer at once; further ones wait.
const QUESTIONS_MAX: usize = 32;
/// One that does not answer is complained of this often.
const COMPLAIN_EVERY_MS: u64 = 10_000;

/// Somebody whose tokens are believed, and what is known of them.
pub(crate) struct Issuer {
    config: Oidc,
    /// What its credentials are called, so that those of another issuer with the same name are not taken for them.
    mark: String,
    keys: Keys,
    /// Maximum age of keys that cannot be fetched again.
    keys_age_max: Duration,
    /// Signed tokens that were good.
    tokens: Cache<Principal>,
    /// How often all of those were forgotten.
    n_forgotten: AtomicU64,
    /// What opaque tokens stand for.
    looked: Cache<Looked>,
    questions: Semaphore,
    complained: Mutex<Option<Timestamp>>,
    /// Rung when some of its keys count no more.
    gate: Weak<Gate>,
}

/// The state of an issuer, for metrics.
pub(crate) struct IssuerState {
    pub(crate) keys: KeysState,
    /// Tokens that are remembered.
    pub(crate) n_tokens: usize,
}

/// Why a token proves nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Doubt {
    /// It is wrong.
    Bad(String),
    /// Nobody can tell now.
    Unknown(String),
    /// Too much was asked for whoever asks; this long until they may again.
    TooOften(String, Duration),
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "issuer {:?}", self.config.name)
    }
}

impl Issuer {
    /// An issuer whose keys were not fetched yet.
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

    pub(crate) fn config(&self) -> &Oidc {
        &self.config
    }

    /// Is this principal one of its own, let in by a token of its own, and has it not withdrawn the key of that?
    pub(super) fn vouches(&self, who: &Principal) -> bool {
        let name = who.name().split_once(':').map(|(name, _)| name);
        let mark = who.credential().strip_prefix("oidc:").and_then(|rest| rest.split(':').next());
        let is_its_own = name == Some(&self.config.name) && mark == Some(&self.mark);
        is_its_own && who.key().is_none_or(|key| self.keys.count(key))
    }

    /// The name of a credential in logs and sessions.
    fn credential(&self, digest: &Digest) -> Arc<str> {
        format!("oidc:{}:{}", self.mark, super::policy::hex(&digest[..8])).into()
    }

    /// Who this was found to be before, and until when that counts.
    pub(super) fn known(
        self: &Arc<Self>,
        digest: &Digest,
        wall_ms: i64,
    ) -> Option<(Principal, Term)> {
        // Before the look: whatever is forgotten from here on shows.
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

    /// How often its tokens were forgotten.
    pub(super) fn n_forgotten(&self) -> u64 {
        self.n_forgotten.load(Ordering::Acquire)
    }

    /// Has every signed token checked again: a key that signed some of them may be gone.
    fn forget_tokens(&self) {
        self.tokens.clear();
        // After that: whoever still found one there sees that it was counted before.
        self.n_forgotten.fetch_add(1, Ordering::AcqRel);
        self.have_looked_again();
    }

    /// Has connections, waits and streams that came by its tokens look again whether these still count.
    fn have_looked_again(&self) {
        if let Some(gate) = self.gate.upgrade() {
            gate.ring();
        }
    }

    /// Who a signed token proves to ask.
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
        // Before its keys are asked for: what is of no use anyway costs nobody anything.
        let ends = claims.check(&self.config.audiences, asked.wall_ms).map_err(bad)?;
        claims.refuse_id_token().map_err(bad)?;
        let principal = claims.principal(self.credential(digest), Some(ends)).map_err(bad)?;
        let ring = self.keys.with(self, token.key_id.as_deref(), asked).await?;
        let Token { algorithm, key_id, message, signature, .. } = token;
        let key = ring.verify(key_id.as_deref(), *algorithm, message, signature);
        let principal =
            principal.signed_by(key.ok_or_else(|| bad("the token's signature is wrong"))?);
        self.tokens.insert(*digest, principal.clone());
        // Its keys have changed meanwhile: what was signed with one that is gone must not be remembered.
        if !Arc::ptr_eq(&ring, &self.keys.ring()) {
            self.forget_tokens();
        }
        Ok(principal)
    }

    /// Logs that it does not answer as it should, but not for everybody who asks.
    fn complain(&self, why: &str, now: Timestamp) {
        let mut complained = lock(&self.complained);
        if complained.is_none_or(|at| now.since(at).as_millis() >= COMPLAIN_EVERY_MS) {
            *complained = Some(now);
            tracing::warn!(issuer = self.config.issuer, why, "an issuer does not answer");
        }
    }

    pub(super) fn state(&self, now: Timestamp) -> IssuerState {
        let n_tokens = self.tokens.len() + self.looked.len();
        IssuerState { keys: self.keys.state(now), n_tokens }
    }

    /// Drops its keys if they are too old; its tokens are refused from then on.
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

    /// Has its keys fetched if that is due.
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

/// Somebody asks, and this is what it takes to find out who.
pub(super) struct Asked<'a> {
    pub(super) now: Timestamp,
    pub(super) wall_ms: i64,
    /// May one more question be put to an issuer for whoever asks?
    pub(super) may_look_up: &'a (dyn Fn() -> Result<(), Doubt> + Sync),
}

/// The hash by which a token is remembered.
pub(super) fn digest(token: &str) -> Digest {
    Sha256::digest(token).into()
}

/// Who this token proves to ask, by whichever of these it is from.
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
        return Err(Doubt::Bad("the token is from an issuer that is not known here".into()));
    };
    issuer.verify(&token, digest, asked).await
}
