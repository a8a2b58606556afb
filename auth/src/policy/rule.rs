//! Rules: which principals have which rights on which locks. Rules only grant; one matching rule is enough.

use std::sync::Arc;

use super::pattern::Pattern;
use crate::principal::ANONYMOUS;
use crate::{Part, Principal, Right};

/// One rule of the auth file.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The rule's name, for people and for the audit file.
    pub name: Arc<str>,
    /// The file and line of the rule: `auth.toml:31`.
    pub place: String,
    pub(super) who: Vec<Pattern>,
    pub(super) groups: Vec<Pattern>,
    pub(super) may: Vec<Right>,
    pub(super) namespaces: Vec<Pattern>,
    pub(super) locks: Vec<Pattern>,
}

impl Rule {
    pub(crate) fn is_about(&self, who: &Principal) -> bool {
        is_named(&self.who, who)
            || who.groups().iter().any(|group| self.groups.iter().any(|known| known.matches(group)))
    }

    /// Returns whether the rule applies to groups of this kind: those of an issuer or of the proxy. Keys and
    /// certificates have no groups.
    pub(crate) fn is_about_groups_of(&self, kind: &str) -> bool {
        let kind = format!("{kind}:");
        self.groups.iter().any(|group| group.reaches_into(&kind))
    }

    pub(crate) fn grants(&self, right: Right) -> bool {
        self.may.iter().any(|own| own.implies(right))
    }

    pub(crate) fn covers_namespace(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|pattern| pattern.matches(namespace))
    }

    pub(crate) fn covers(&self, namespace: &str, name: &str) -> bool {
        self.covers_namespace(namespace) && self.covers_name(name)
    }

    pub(crate) fn covers_name(&self, name: &str) -> bool {
        self.locks.iter().any(|pattern| pattern.matches(name))
    }

    /// Returns whether the rule can cover a lock in `namespace` whose name starts with `prefix`.
    pub(crate) fn reaches_into(&self, namespace: &str, prefix: &str) -> bool {
        self.covers_namespace(namespace)
            && self.locks.iter().any(|pattern| pattern.reaches_into(prefix))
    }

    /// Returns how much the rule covers of the locks in `namespace` whose names are from `first` to `last`.
    pub(crate) fn covers_between(&self, namespace: &str, first: &str, last: &str) -> Part {
        if !self.covers_namespace(namespace) {
            return Part::None;
        }
        let parts = self.locks.iter().map(|pattern| pattern.part_between(first, last));
        let best = |a, b| match (a, b) {
            (Part::All, _) | (_, Part::All) => Part::All,
            (Part::Some, _) | (_, Part::Some) => Part::Some,
            _ => Part::None,
        };
        parts.fold(Part::None, best)
    }

    pub(crate) fn covers_all_names(&self) -> bool {
        self.locks.iter().any(Pattern::is_all)
    }

    pub(crate) fn covers_all_namespaces(&self) -> bool {
        self.namespaces.iter().any(Pattern::is_all)
    }
}

/// Returns whether a pattern matches the principal. A star does not match anonymous clients: rules must name
/// `anonymous`.
pub(super) fn is_named(patterns: &[Pattern], who: &Principal) -> bool {
    let name = &**who.name();
    patterns.iter().any(|pattern| match pattern {
        Pattern::Exactly(exact) => **exact == *name,
        Pattern::Prefix(_) => name != ANONYMOUS && pattern.matches(name),
    })
}
