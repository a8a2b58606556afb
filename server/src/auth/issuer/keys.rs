//! The keys of an issuer: fetched when they are first needed, from time to time, and when a token names a new one.

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use axum::http::Uri;
use leasehold_core::Timestamp;
use serde_json::Value;

use super::key::{Key, KeyRing};
use super::{Asked, Doubt, Issuer, fetch};
use crate::auth::policy::{KeySource, Oidc, url};
use crate::sync::{lock, read, write};

/// Keys are fetched again after this time, so that one that was withdrawn is noticed.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// Whatever anybody asks, no sooner than this after the last time.
const PAUSE: Duration = Duration::from_secs(10);
/// What is known of them.
pub(super) struct Keys {
    ring: RwLock<Arc<KeyRing>>,
    document: RwLock<Option<Arc<Document>>>,
    tried: Mutex<Tried>,
    /// One fetch at a time; the others wait for it.
    turn: tokio::sync::Mutex<()>,
    is_fixed: bool,
}

#[derive(Default)]
struct Tried {
    last: Option<Timestamp>,
    succeeded: Option<Timestamp>,
    /// Why the last time failed.
    why: Option<String>,
    count: Fetches,
}

/// The number of fetches of keys, by result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fetches {
    pub(crate) n_good: u64,
    pub(crate) n_empty: u64,
    pub(crate) n_failed: u64,
}

/// The state of an issuer's keys, for metrics.
pub(crate) struct KeysState {
    pub(crate) n_keys: usize,
    /// The time since they were fetched; `None` if they come from a file or there are none yet.
    pub(crate) age: Option<Duration>,
    pub(crate) fetches: Fetches,
}

/// What an issuer says of itself.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Document {
    pub(super) jwks: Uri,
    pub(super) authorization: Option<Uri>,
    pub(super) token: Option<Uri>,
    /// It names itself when it sends somebody back (RFC 9207).
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

    /// Does what this key signed count? As long as nobody knows which keys there are, nobody knows that it is gone.
    pub(super) fn count(&self, key: &Key) -> bool {
        self.ring().has(key) || !self.is_fixed && lock(&self.tried).succeeded.is_none()
    }

    /// Those there are, with the one of this name if it can be had.
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
        let unknown = || Doubt::Bad("the token is signed with a key that is not known".into());
        if self.is_fixed {
            return Err(unknown());
        }
        if self.may_try(asked.now) {
            (asked.may_look_up)()?;
            // By itself, so that a client that leaves does not stop what others wait for.
            let fetching = tokio::spawn(issuer.clone().refresh(asked.now));
            let _ = fetching.await;
        } else {
            // Perhaps somebody else is just fetching them.
            drop(self.turn.lock().await);
        }
        let ring = self.ring();
        if ring.knows(id) {
            return Ok(ring);
        }
        let why = lock(&self.tried).why.clone();
        match why {
            // That it is so was logged when it was tried.
            Some(_) => Err(Doubt::Unknown(
                "the token cannot be checked now: its issuer does not answer".into(),
            )),
            None => Err(unknown()),
        }
    }

    /// Is it time to fetch them without being asked?
    pub(super) fn are_due(&self, now: Timestamp) -> bool {
        let tried = lock(&self.tried);
        let is_fresh = tried.succeeded.is_some_and(|at| since(at, now) < FRESH_FOR);
        !self.is_fixed && !is_fresh && tried.last.is_none_or(|at| since(at, now) >= PAUSE)
    }

    fn may_try(&self, now: Timestamp) -> bool {
        let tried = lock(&self.tried);
        tried.last.is_none_or(|at| since(at, now) >= PAUSE)
    }

    /// Fetches them, unless somebody just did. What is there stays if that fails.
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
                    // By tokens of an issuer that the auth file spoke of in another way before.
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
                    "the keys of an issuer cannot be fetched"
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

    /// What the issuer says of itself, as it was last.
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
        // Otherwise one issuer could answer for another.
        if document["issuer"].as_str() != Some(&config.issuer) {
            return Err(format!("is of another issuer than {:?}", config.issuer));
        }
        let at = |name: &str| match &document[name] {
            Value::String(text) => {
                url::parse(text).map(Some).map_err(|why| format!("{name}: {why}"))
            }
            _ => Ok(None),
        };
        Ok(Self {
            jwks: at("jwks_uri")?.ok_or("does not say where its keys are (jwks_uri)")?,
            authorization: at("authorization_endpoint")?,
            token: at("token_endpoint")?,
            names_itself: document["authorization_response_iss_parameter_supported"] == true,
        })
    }
}

fn since(at: Timestamp, now: Timestamp) -> Duration {
    Duration::from_nanos(now.since(at).as_nanos())
}
