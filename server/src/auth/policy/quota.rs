//! Quotas: how much somebody may have, and how often they may ask.

use super::pattern::Pattern;
use super::rule::is_named;
use crate::auth::Principal;

/// One quota of the file.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    /// Each of these by itself.
    pub(super) who: Vec<Pattern>,
    pub(crate) requests_per_second: Option<u32>,
    pub(crate) leases: Option<u32>,
}

impl Quota {
    pub(super) fn is_about(&self, who: &Principal) -> bool {
        is_named(&self.who, who)
    }
}
