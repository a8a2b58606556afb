//! Whoever made a request.

use std::sync::Arc;

/// What everybody is who shows no credential.
pub(super) const ANONYMOUS: &str = "anonymous";

/// Whoever made a request, as a credential proves it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal(Arc<Identity>);

#[derive(PartialEq, Eq, Debug)]
struct Identity {
    name: Arc<str>,
}

impl Principal {
    /// Somebody who showed no credential.
    pub fn anonymous() -> Self {
        Self(Arc::new(Identity { name: ANONYMOUS.into() }))
    }

    /// What they are called as an owner, in rules and in logs: `key:ci`.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }
}
