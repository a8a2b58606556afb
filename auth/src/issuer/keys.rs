//! Fetches the keys of an issuer: when first needed, periodically, and when a token names an unknown key.

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use http::Uri;
use leasehold_base::sync::{lock, read, write};
use leasehold_core::Timestamp;
use serde_json::Value;

use super::key::{Key, KeyRing};
use super::{Asked, Doubt, Issuer, fetch};
use crate::policy::{KeySource, Oidc, url};

/// Keys are fetched again after this time, so that withdrawn keys are noticed.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// Minimum time between two fetches, however many tokens need one.
const PAUSE: Duration = Duration::from_secs(10);
/// The known keys of an issuer, and the state of fetching them.
pub(super) struct Keys {
    ring: RwLock<Arc<KeyRing>>,
    document: RwLock<Option<Arc<Document>>>,
    tried: Mutex<Tried>,
    /// Serializes fetches: other requests wait for the running one.
    turn: tokio::sync::Mutex<()>,
    is_fixed: bool,
}

#[derive(Default)]
struct Tried {
    last: Option<Timestamp>,
    succeeded: Option<Timestamp>,
    /// Why the last fetch failed.
    why: Option<String>,
    count: Fetches,
}

/// The number of fetches of keys, by result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fetches {
    pub n_good: u64,
    pub n_empty: u64,
    pub n_failed: u64,
}

/// The state of an issuer's keys, for metrics.
pub struct KeysState {
    /// Number of keys.
    pub n_keys: usize,
    /// The time since they were fetched; `None` if they come from a file or there are none yet.
    pub age: Option<Duration>,
    /// How many times the keys were fetched, by result.
    pub fetches: Fetches,
}

/// The parts of an issuer's discovery document that the server uses.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Document {
    pub(super) jwks: Uri,
    pub(super) authorization: Option<Uri>,
    pub(super) token: Option<Uri>,
    /// Whether the issuer identifies itself when it redirects a user back (`iss`, RFC 9207).
    pub(super) names_itself: bool,
}

impl Tried {
    /// Counts a fetch.
    fn count(&mut self, fetched: &Result<KeyRing, String>) {
        let count = &mut self.count;
        let n = match fetched {
            Ok(ring) if ring.is_empty() => &mut count.n_empty,
            Ok(_) => &mut count.n_good,
            Err(_) => &mut count.n_failed,
        };
        *n += 1;
    }
}

impl Keys {
    pub(super) fn new(config: &Oidc) -> Self {
        let ring = match &config.keys {
            KeySource::File(ring) => ring.clone(),
            KeySource::Discovery | KeySource::At(_) => KeyRing::default(),
        };
        Self {
            ring: RwLock::new(Arc::new(ring)),
            document: RwLock::default(),
            tried: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            is_fixed: matches!(config.keys, KeySource::File(_)),
        }
    }

    pub(super) fn ring(&self) -> Arc<KeyRing> {
        read(&self.ring).clone()
    }

    /// Returns whether tokens signed with this key are valid. Until the first successful fetch, every key counts as
    /// valid, because none is known to be withdrawn.
    pub(super) fn count(&self, key: &Key) -> bool {
        self.ring().has(key) || !self.is_fixed && lock(&self.tried).succeeded.is_none()
    }

    /// Returns the keys, after a fetch if the key with this id is not known yet.
    pub(super) async fn with(
        &self,
        issuer: &Arc<Issuer>,
        id: Option<&str>,
        asked: &Asked<'_>,
    ) -> Result<Arc<KeyRing>, Doubt> {
        issuer.expire_keys(asked.now);
        let ring = self.ring();
        if ring.knows(id) {
            return Ok(ring);
        }
        let unknown = || Doubt::Bad("the token is signed with an unknown key".into());
        if self.is_fixed {
            return Err(unknown());
        }
        if self.may_try(asked.now) {
            (asked.may_look_up)()?;
            // A separate task, so that a client that disconnects does not cancel the fetch that others wait for.
            let fetching = tokio::spawn(issuer.clone().refresh(asked.now));
            let _ = fetching.await;
        } else {
            // Another request might be fetching the keys now: wait for it.
            drop(self.turn.lock().await);
        }
        let ring = self.ring();
        if ring.knows(id) {
            return Ok(ring);
        }
        let why = lock(&self.tried).why.clone();
        match why {
            // The failure was logged when the fetch failed.
            Some(_) => Err(Doubt::Unknown(
                "the token cannot be checked now: its issuer does not respond".into(),
            )),
            None => Err(unknown()),
        }
    }

    /// Returns whether a periodic fetch is due.
    pub(super) fn are_due(&self, now: Timestamp) -> bool {
        let tried = lock(&self.tried);
        let is_fresh = tried.succeeded.is_some_and(|at| since(at, now) < FRESH_FOR);
        !self.is_fixed && !is_fresh && tried.last.is_none_or(|at| since(at, now) >= PAUSE)
    }

    fn may_try(&self, now: Timestamp) -> bool {
        let tried = lock(&self.tried);
        tried.last.is_none_or(|at| since(at, now) >= PAUSE)
    }

    /// Fetches the keys, unless they were just fetched. The known keys stay if the fetch fails.
    pub(super) async fn refresh(&self, issuer: &Issuer, now: Timestamp) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        if !self.may_try(now) {
            return Ok(());
        }
        lock(&self.tried).last = Some(now);
        let fetched = self.fetch(&issuer.config).await;
        let mut tried = lock(&self.tried);
        tried.count(&fetched);
        match fetched {
            Ok(ring) => {
                let is_withdrawn = ring.is_empty();
                let had = std::mem::replace(&mut *write(&self.ring), Arc::new(ring));
                let is_first = tried.succeeded.replace(now).is_none();
                tried.why = None;
                if !had.is_within(&self.ring()) {
                    issuer.forget_tokens();
                } else if is_first {
                    // Clients may hold tokens that were accepted under an earlier configuration of this issuer.
                    issuer.have_looked_again();
                }
                if is_withdrawn && !had.is_empty() {
                    let issuer = &issuer.config.issuer;
                    tracing::error!(
                        issuer,
                        "issuer has withdrawn all its keys; refusing its tokens"
                    );
                }
                Ok(())
            }
            Err(why) => {
                tracing::warn!(
                    issuer = issuer.config.issuer,
                    why,
                    "cannot fetch the keys of an issuer"
                );
                tried.why = Some(why.clone());
                Err(why)
            }
        }
    }

    /// Drops keys that could not be fetched again for longer than `age_max`. Returns whether it dropped any.
    pub(super) fn expire(&self, now: Timestamp, age_max: Duration) -> bool {
        let mut tried = lock(&self.tried);
        let is_old = tried.succeeded.is_some_and(|at| since(at, now) > age_max);
        if self.is_fixed || !is_old || self.ring().is_empty() {
            return false;
        }
        *write(&self.ring) = Arc::default();
        tried.why.get_or_insert_with(|| "its keys are too old (auth-keys-age-max)".into());
        true
    }

    pub(super) fn state(&self, now: Timestamp) -> KeysState {
        let tried = lock(&self.tried);
        let age = tried.succeeded.map(|at| since(at, now));
        KeysState { n_keys: self.ring().len(), age, fetches: tried.count }
    }

    async fn fetch(&self, config: &Oidc) -> Result<KeyRing, String> {
        let at = match &config.keys {
            KeySource::At(at) => at.clone(),
            KeySource::Discovery | KeySource::File(_) => self.discover(config).await?.jwks.clone(),
        };
        let ring = KeyRing::parse(&fetch::get(&at).await?);
        ring.map_err(|why| format!("{at} {why}"))
    }

    /// Returns the last discovery document, and fetches it first if necessary.
    pub(super) async fn document(&self, config: &Oidc) -> Result<Arc<Document>, String> {
        let known = read(&self.document).clone();
        match known {
            Some(document) => Ok(document),
            None => self.discover(config).await,
        }
    }

    async fn discover(&self, config: &Oidc) -> Result<Arc<Document>, String> {
        let at =
            format!("{}/.well-known/openid-configuration", config.issuer.trim_end_matches('/'));
        let at = url::parse(&at)?;
        let body = fetch::get(&at).await?;
        let document = Document::parse(&body, config).map_err(|why| format!("{at}: {why}"))?;
        let document = Arc::new(document);
        *write(&self.document) = Some(document.clone());
        Ok(document)
    }
}

impl Document {
    fn parse(body: &[u8], config: &Oidc) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(body).map_err(|_| "is not JSON".to_owned())?;
        // Otherwise one issuer could publish a document for another.
        if document["issuer"].as_str() != Some(&config.issuer) {
            return Err(format!("has another issuer than {:?}", config.issuer));
        }
        let at = |name: &str| match &document[name] {
            Value::String(text) => {
                url::parse(text).map(Some).map_err(|why| format!("{name}: {why}"))
            }
            _ => Ok(None),
        };
        Ok(Self {
            jwks: at("jwks_uri")?.ok_or("has no jwks_uri")?,
            authorization: at("authorization_endpoint")?,
            token: at("token_endpoint")?,
            names_itself: document["authorization_response_iss_parameter_supported"] == true,
        })
    }
}

fn since(at: Timestamp, now: Timestamp) -> Duration {
    Duration::from_nanos(now.since(at).as_nanos())
}
