//! Whoever made a request.

use std::sync::Arc;

use super::issuer::Key;

/// What everybody is who shows no credential.
pub(crate) const ANONYMOUS: &str = "anonymous";
/// What the principals of API keys begin with.
pub(super) const OF_KEYS: &str = "key:";

/// Whoever made a request, as a credential proves it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal(Arc<Identity>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Identity {
    name: Arc<str>,
    groups: Vec<Arc<str>>,
    credential: Arc<str>,
    /// When what they showed ends, in epoch milliseconds.
    ends_ms: Option<i64>,
    /// The issuer's key that signed their token.
    signed_by: Option<Arc<Key>>,
}

impl Principal {
    /// Somebody who showed no credential.
    pub fn anonymous() -> Self {
        Self::known(ANONYMOUS.into(), Vec::new(), "".into())
    }

    /// Whoever has the API key `name`.
    pub(super) fn of_key(name: &str, id: &str) -> Self {
        Self::known(format!("{OF_KEYS}{name}").into(), Vec::new(), id.into())
    }

    /// Somebody of this name, for those who only want to know what they may.
    pub(super) fn named(name: &str, groups: &[String]) -> Self {
        let groups = groups.iter().map(|group| group.as_str().into()).collect();
        Self::known(name.into(), groups, "".into())
    }

    /// Somebody who was let in before.
    pub(super) fn known(name: Arc<str>, groups: Vec<Arc<str>>, credential: Arc<str>) -> Self {
        Self::until(name, groups, credential, None)
    }

    /// The same, until then.
    pub(super) fn until(
        name: Arc<str>,
        groups: Vec<Arc<str>>,
        credential: Arc<str>,
        ends_ms: Option<i64>,
    ) -> Self {
        Self(Arc::new(Identity { name, groups, credential, ends_ms, signed_by: None }))
    }

    /// The same, as long as the issuer has this key.
    pub(super) fn signed_by(self, key: Arc<Key>) -> Self {
        Self(Arc::new(Identity { signed_by: Some(key), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The issuer's key that signed what they showed; `None`: it was no signed token.
    pub(super) fn key(&self) -> Option<&Key> {
        self.0.signed_by.as_deref()
    }

    /// When what they showed ends by itself, in epoch milliseconds; API keys are looked up instead.
    pub(crate) fn ends_ms(&self) -> Option<i64> {
        self.0.ends_ms
    }

    /// Has it ended?
    pub(super) fn is_over(&self, wall_ms: i64) -> bool {
        self.0.ends_ms.is_some_and(|ends| wall_ms >= ends)
    }

    /// What they are called as an owner, in rules and in logs: `key:ci`.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// The groups they are in, as their credential says.
    pub fn groups(&self) -> &[Arc<str>] {
        &self.0.groups
    }

    /// The id of the credential they showed, never the credential itself; empty if they showed none.
    pub fn credential(&self) -> &Arc<str> {
        &self.0.credential
    }

    /// What follows the kind in the name: `ci` of `key:ci`.
    pub fn subject(&self) -> &str {
        self.0.name.split_once(':').map_or(&*self.0.name, |(_, subject)| subject)
    }

    /// Did they show no credential?
    pub fn is_anonymous(&self) -> bool {
        *self.0.name == *ANONYMOUS
    }
}
