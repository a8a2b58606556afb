//! Quotas: how much somebody may have, and how often they may ask.

use leasehold_core::Quota as Allowed;

use super::pattern::Pattern;
use super::rule::is_named;
use crate::auth::Principal;

/// One quota of the file.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    pub(super) of: Whose,
    pub(crate) requests_per_second: Option<u32>,
    pub(crate) leases: Option<Allowed>,
    /// Where it stands: `auth.toml:31`.
    pub(crate) line: u32,
}

/// Whose quota it is.
#[derive(Clone, Debug)]
pub(super) enum Whose {
    /// Each of these principals by itself.
    Principals(Vec<Pattern>),
    /// Each of these namespaces by itself, all principals together.
    Namespaces(Vec<Pattern>),
}

impl Quota {
    pub(super) fn is_about(&self, who: &Principal) -> bool {
        matches!(&self.of, Whose::Principals(principals) if is_named(principals, who))
    }

    pub(super) fn is_about_namespace(&self, namespace: &str) -> bool {
        let Whose::Namespaces(patterns) = &self.of else { return false };
        patterns.iter().any(|pattern| pattern.matches(namespace))
    }
}
