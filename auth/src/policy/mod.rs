//! The policy: which principals exist, and which rights they have. Read from the auth file and replaced as a whole.

mod doubt;
mod file;
mod key;
mod mtls;
mod oidc;
mod pattern;
mod proxy;
mod quota;
mod rule;
mod source;
pub mod url;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use leasehold_base::exposure::Trusted;
use leasehold_core::LockKey;

pub use doubt::Surroundings;
pub(crate) use file::NAME_BYTES_MAX;
pub(crate) use key::Key;
pub use key::{NewKey, PREFIX, hex, is_same, unhex};
pub use mtls::Mtls;
pub(crate) use mtls::{DISTRUSTED, EXPIRED};
pub(crate) use oidc::{KeySource, Login, Oidc};
pub(crate) use proxy::{From, Proxy};
pub(crate) use quota::Quota;
pub(crate) use rule::Rule;
pub(crate) use source::Secret;

use super::principal::OF_KEYS;
use super::{Principal, Right};

/// The content of the auth file and of the files it names.
#[derive(Debug)]
pub struct Policy {
    keys: HashMap<Box<str>, Key>,
    issuers: Vec<Oidc>,
    proxy: Option<Proxy>,
    rules: Vec<Rule>,
    quotas: Vec<Quota>,
    public: Public,
    public_url: Option<String>,
    mtls: Option<Arc<Mtls>>,
    hash: String,
    files: Vec<Trusted>,
}

/// What the server serves without authentication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Public {
    /// Whether `/metrics` is.
    pub metrics: bool,
    /// Whether the documentation of the API is.
    pub docs: bool,
}

/// The outcome of checking a principal's right, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Whether the right is granted.
    pub is_allowed: bool,
    /// The reason: the rule that grants the right and its line, or that no rule grants it.
    pub why: String,
}

impl Policy {
    /// Reads the auth file and the files it names. Errors name the file, the line and the problem.
    pub fn load(path: &Path) -> Result<Self, String> {
        file::load(path)
    }

    /// Returns a hash of the content of all files.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the files the policy was read from.
    pub fn files(&self) -> &[Trusted] {
        &self.files
    }

    /// Returns warnings about settings in the files that are valid but probably mistakes, each with its file and line.
    pub fn doubts(&self, path: &Path, around: &Surroundings) -> Result<Vec<String>, String> {
        doubt::all(path, self, around)
    }

    /// Returns the kinds of credentials a client can use, as text.
    pub fn accepted(&self) -> String {
        let kinds = [
            (!self.keys.is_empty(), "an API key (Authorization: Bearer, LEASEHOLD_API_KEY)"),
            (!self.issuers().is_empty(), "a token of an issuer (Authorization: Bearer)"),
            (self.mtls.is_some(), "a client certificate (LEASEHOLD_CLIENT_CERT_FILE)"),
            (self.proxy().is_some(), "identity headers of the reverse proxy"),
        ];
        let accepted: Vec<_> = kinds
            .into_iter()
            .filter_map(|(is_accepted, kind)| is_accepted.then_some(kind))
            .collect();
        if accepted.is_empty() { "nothing yet".into() } else { accepted.join(", or ") }
    }

    /// Returns what the server serves without authentication.
    pub fn public(&self) -> Public {
        self.public
    }

    /// Returns the URL under which browsers reach the server, if it is configured.
    pub fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    /// Returns the `[mtls]` settings, if there are any.
    pub fn mtls(&self) -> Option<&Arc<Mtls>> {
        self.mtls.as_ref()
    }

    /// Returns whether the principal is identified by a client certificate.
    pub(crate) fn is_of_certificate(principal: &str) -> bool {
        principal.starts_with(mtls::OF_CERTIFICATES)
    }

    /// Returns whether the principal is identified by an API key.
    pub fn is_of_key(principal: &str) -> bool {
        principal.starts_with(OF_KEYS)
    }

    /// Returns the configured token issuers.
    pub fn issuers(&self) -> &[Oidc] {
        &self.issuers
    }

    /// Returns the proxy that is trusted to name users, if there is one.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// Returns the principal of this API key. The result does not reveal whether the id or the secret was wrong.
    pub fn by_key(&self, text: &str, wall_ms: i64) -> Option<Principal> {
        let (id, secret) = key::split(text)?;
        let key = self.keys.get(id)?;
        let is_good = key.has_secret(secret) && !key.is_expired(wall_ms);
        is_good.then(|| Principal::of_key(&key.name, id))
    }

    /// Returns whether the key or certificate that identified this principal is still valid.
    ///
    /// A key is valid while it exists, has not expired and has the same name; a certificate while the `[mtls]` settings
    /// are unchanged.
    pub fn has_key(&self, id: &str, principal: &str, wall_ms: i64) -> bool {
        if Self::is_of_certificate(principal) {
            return self.mtls.as_ref().is_some_and(|mtls| **mtls.id() == *id);
        }
        let key = self.keys.get(id).filter(|key| !key.is_expired(wall_ms));
        key.is_some_and(|key| principal.strip_prefix(OF_KEYS) == Some(&*key.name))
    }

    /// Returns the names of all keys that have not expired.
    pub fn live_keys(&self, wall_ms: i64) -> BTreeSet<&str> {
        self.keys.values().filter(|key| !key.is_expired(wall_ms)).map(|key| &*key.name).collect()
    }

    /// Returns whether the rules let this principal acquire this lock.
    pub(crate) fn may_acquire(&self, who: &Principal, lock: &LockKey) -> bool {
        self.acquiring(lock).any(|rule| rule.is_about(who))
    }

    /// Returns whether a principal with this name could acquire this lock. Its groups are not known, so a rule for
    /// groups counts if the principal could be in one of them.
    pub(crate) fn could_acquire(&self, name: &str, lock: &LockKey) -> bool {
        let who = Principal::named(name, &[]);
        let could_be_in = |rule: &Rule| {
            let kind = name.split_once(':').map(|(kind, _)| kind);
            kind.is_some_and(|kind| rule.is_about_groups_of(kind))
        };
        self.acquiring(lock).any(|rule| rule.is_about(&who) || could_be_in(rule))
    }

    /// Returns the rules that grant acquiring this lock.
    fn acquiring(&self, lock: &LockKey) -> impl Iterator<Item = &Rule> {
        let covers = |rule: &&Rule| rule.covers(&lock.namespace, &lock.name);
        self.rules.iter().filter(|rule| rule.grants(Right::Acquire)).filter(covers)
    }

    /// Returns when the key with this id expires, in epoch milliseconds.
    pub fn key_expiry(&self, id: &str) -> Option<i64> {
        self.keys.get(id).and_then(|key| key.expires_ms)
    }

    /// Returns the name and the expiry (in epoch milliseconds) of every key that expires, earliest first.
    pub fn key_ends(&self) -> Vec<(&str, i64)> {
        let ends = self.keys.values().filter_map(|key| Some((&*key.name, key.expires_ms?)));
        let mut ends: Vec<_> = ends.collect();
        ends.sort_by_key(|(name, ends_ms)| (*ends_ms, *name));
        ends
    }

    /// Returns the indexes of the rules that apply to `who`.
    pub fn about(&self, who: &Principal) -> Box<[usize]> {
        let rules = self.rules.iter().enumerate().filter(|(_, rule)| rule.is_about(who));
        rules.map(|(at, _)| at).collect()
    }

    /// Returns the rule with this index.
    pub(crate) fn rule_at(&self, at: usize) -> Option<&Rule> {
        self.rules.get(at)
    }

    /// Returns the index of the first quota that applies to `who`.
    pub(crate) fn quota_of(&self, who: &Principal) -> Option<usize> {
        self.quotas.iter().position(|quota| quota.is_about(who))
    }

    /// Returns the quota with this index.
    pub(crate) fn quota_at(&self, at: usize) -> Option<&Quota> {
        self.quotas.get(at)
    }

    /// Returns the first quota that applies to the namespace as a whole.
    pub(crate) fn quota_of_namespace(&self, namespace: &str) -> Option<&Quota> {
        self.quotas.iter().find(|quota| quota.is_about_namespace(namespace))
    }

    /// Explains which rule grants or would have to grant this right.
    pub fn explain(&self, who: &str, groups: &[String], right: Right, lock: &LockKey) -> Decision {
        let who = Principal::named(who, groups);
        let decides = |rule: &&Rule| {
            rule.grants(right) && rule.is_about(&who) && rule.covers(&lock.namespace, &lock.name)
        };
        match self.rules.iter().find(decides) {
            Some(rule) => {
                let why = format!(
                    "{} may {right} {lock:?}: rule {:?} at {}",
                    who.name(),
                    rule.name,
                    rule.place
                );
                Decision { is_allowed: true, why }
            }
            None => Decision { is_allowed: false, why: refusal(&who, right, lock) },
        }
    }
}

/// Maximum characters of a lock name in an error message.
const SHOWN_CHARS_MAX: usize = 700;

/// Returns the error text for a right that no rule grants.
pub(crate) fn refusal(who: &Principal, right: Right, lock: &LockKey) -> String {
    let mut name = format!("{lock:?}");
    if let Some((end, _)) = name.char_indices().nth(SHOWN_CHARS_MAX) {
        name.truncate(end);
        name.push_str("...");
    }
    let who = who.name().escape_debug();
    match right {
        Right::Read | Right::Acquire | Right::Revoke => {
            format!("{who} may not {right} {name}: no rule grants it")
        }
        Right::FilesRead | Right::FilesWrite | Right::Admin => {
            format!("{who} needs the right {right} for {name}: no rule grants it")
        }
    }
}
