//! The principal: the identity that a credential proves.

use std::sync::Arc;

use super::issuer::Key;

/// Principal name of a client without a credential.
pub const ANONYMOUS: &str = "anonymous";
/// Prefix of the principal names of API keys.
pub(super) const OF_KEYS: &str = "key:";

/// The identity that a credential proves, with its groups. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal(Arc<Identity>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Identity {
    name: Arc<str>,
    groups: Vec<Arc<str>>,
    credential: Arc<str>,
    /// When the credential expires, in epoch milliseconds.
    ends_ms: Option<i64>,
    /// The issuer's key that signed the token.
    signed_by: Option<Arc<Key>>,
}

impl Principal {
    /// Returns the principal of a client without a credential.
    pub fn anonymous() -> Self {
        Self::known(ANONYMOUS.into(), Vec::new(), "".into())
    }

    /// Returns the principal of the API key `name`.
    pub(super) fn of_key(name: &str, id: &str) -> Self {
        Self::known(format!("{OF_KEYS}{name}").into(), Vec::new(), id.into())
    }

    /// Returns a principal with this name and no credential, to evaluate rules for it.
    pub(super) fn named(name: &str, groups: &[String]) -> Self {
        let groups = groups.iter().map(|group| group.as_str().into()).collect();
        Self::known(name.into(), groups, "".into())
    }

    /// Returns the principal of a credential that was already verified and does not expire.
    pub(super) fn known(name: Arc<str>, groups: Vec<Arc<str>>, credential: Arc<str>) -> Self {
        Self::until(name, groups, credential, None)
    }

    /// Returns the principal of a credential that was already verified and expires at `ends_ms`.
    pub(super) fn until(
        name: Arc<str>,
        groups: Vec<Arc<str>>,
        credential: Arc<str>,
        ends_ms: Option<i64>,
    ) -> Self {
        Self(Arc::new(Identity { name, groups, credential, ends_ms, signed_by: None }))
    }

    /// Returns this principal bound to the key that signed its token: it is valid only while the issuer publishes the
    /// key.
    pub(super) fn signed_by(self, key: Arc<Key>) -> Self {
        Self(Arc::new(Identity { signed_by: Some(key), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Returns the issuer's key that signed the token, or `None` if the credential was not a signed token.
    pub(super) fn key(&self) -> Option<&Key> {
        self.0.signed_by.as_deref()
    }

    /// Returns when the credential expires, in epoch milliseconds. `None` for API keys: their expiry is in the policy.
    pub fn ends_ms(&self) -> Option<i64> {
        self.0.ends_ms
    }

    /// Returns whether the credential has expired.
    pub(super) fn is_over(&self, wall_ms: i64) -> bool {
        self.0.ends_ms.is_some_and(|ends| wall_ms >= ends)
    }

    /// Returns the name used for owners, in rules and in logs, such as `key:ci`.
    #[inline]
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Returns the groups that the credential lists.
    pub fn groups(&self) -> &[Arc<str>] {
        &self.0.groups
    }

    /// Returns the id of the credential, never the credential itself. Empty without a credential.
    #[inline]
    pub fn credential(&self) -> &Arc<str> {
        &self.0.credential
    }

    /// Returns the part of the name after its kind: `ci` for `key:ci`.
    pub fn subject(&self) -> &str {
        self.0.name.split_once(':').map_or(&*self.0.name, |(_, subject)| subject)
    }

    /// Returns whether the client sent no credential.
    #[inline]
    pub fn is_anonymous(&self) -> bool {
        *self.0.name == *ANONYMOUS
    }
}
