//! Which locks a caller can see in lists.

use std::sync::Arc;

use leasehold_core::LockKey;

use super::Right;
use super::standing::Standing;

/// How much of a range of names a caller can see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Every name.
    All,
    /// Perhaps some names: each has to be checked.
    Some,
    /// No name.
    None,
}

/// Filter for lists, events and history: the entries that a caller can see. The default shows everything.
#[derive(Clone, Default)]
pub struct View(Option<Arc<Restriction>>);

struct Restriction {
    standing: Arc<Standing>,
    right: Right,
    /// Whether the principal also sees its own leases on locks it has no right to read.
    with_own: bool,
}

impl View {
    pub(super) fn new(standing: Arc<Standing>, right: Right) -> Self {
        Self(Some(Arc::new(Restriction { standing, right, with_own: false })))
    }

    pub(super) fn with_own(standing: Arc<Standing>, right: Right) -> Self {
        Self(Some(Arc::new(Restriction { standing, right, with_own: true })))
    }

    /// Returns whether the filter shows everything.
    #[inline]
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the filter shows this lock.
    #[inline]
    pub fn shows(&self, lock: &LockKey) -> bool {
        self.0.as_ref().is_none_or(|seen| seen.standing.rule(seen.right, lock).is_some())
    }

    /// Returns how much the filter shows of the locks whose names are at least `first` and at most `last`.
    pub fn shows_between(&self, namespace: &str, first: &str, last: &str) -> Part {
        let Some(seen) = &self.0 else { return Part::All };
        let mut part = Part::None;
        for rule in seen.standing.granting(seen.right) {
            match rule.covers_between(namespace, first, last) {
                Part::All => return Part::All,
                Part::Some => part = Part::Some,
                Part::None => {}
            }
        }
        part
    }

    /// Returns whether the filter shows a lease of this principal on this lock.
    pub fn shows_lease(&self, lock: &LockKey, principal: &str) -> bool {
        let Some(seen) = &self.0 else { return true };
        seen.with_own && **seen.standing.principal.name() == *principal || self.shows(lock)
    }

    /// Returns whether the filter can show any lock whose name starts with `prefix`.
    pub fn reaches_into(&self, namespace: &str, prefix: &str) -> bool {
        self.0.as_ref().is_none_or(|seen| {
            let mut rules = seen.standing.granting(seen.right);
            rules.any(|rule| rule.reaches_into(namespace, prefix))
        })
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            None => f.write_str("all"),
            Some(seen) => write!(f, "what {} may {}", seen.standing.principal.name(), seen.right),
        }
    }
}
