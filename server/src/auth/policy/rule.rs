//! Rules: who may do what, where. They only allow, and what any of them allows is allowed.

use std::sync::Arc;

use super::pattern::Pattern;
use crate::auth::principal::ANONYMOUS;
use crate::auth::{Principal, Right};

/// One rule of the file.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// For people, and for the audit.
    pub(crate) name: Arc<str>,
    /// `auth.toml:31`
    pub(crate) place: String,
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

    /// Is it about any group?
    pub(crate) fn is_about_groups(&self) -> bool {
        !self.groups.is_empty()
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

    /// Does it cover anything whose name begins so?
    pub(crate) fn reaches_into(&self, namespace: &str, prefix: &str) -> bool {
        self.covers_namespace(namespace)
            && self.locks.iter().any(|pattern| pattern.reaches_into(prefix))
    }

    pub(crate) fn covers_all_names(&self) -> bool {
        self.locks.iter().any(Pattern::is_all)
    }

    pub(crate) fn covers_all_namespaces(&self) -> bool {
        self.namespaces.iter().any(Pattern::is_all)
    }

    /// What in it may be wider than it looks, or is about nobody: `is_known` says which kinds of principals there are.
    pub(super) fn doubts(&self, is_known: impl Fn(&str) -> bool) -> Vec<String> {
        let named = self.who.iter().chain(&self.groups).map(Pattern::text);
        let kinds = named.filter_map(|name| name.split_once(':')).map(|(kind, _)| kind);
        let nobodys = kinds.filter(|kind| !is_known(kind)).map(|kind| {
            format!(
                "{}: rule {:?}: nobody's name begins with \"{kind}:\": this file has no [[oidc]] of that name, no \
                 [proxy] or no [mtls]",
                self.place, self.name
            )
        });
        let patterns = self.namespaces.iter().chain(&self.locks);
        let loose = patterns.filter(|pattern| pattern.is_loose());
        let doubt = |pattern: &Pattern| match pattern {
            Pattern::Prefix(prefix) => {
                format!("\"{prefix}*\" also matches names such as \"{prefix}ping\"")
            }
            Pattern::Exactly(_) => String::new(),
        };
        let loose = loose
            .map(|pattern| format!("{}: rule {:?}: {}", self.place, self.name, doubt(pattern)));
        loose.chain(nobodys).collect()
    }
}

/// A star is everybody whose name is known: whoever shows no credential has to be named.
pub(super) fn is_named(patterns: &[Pattern], who: &Principal) -> bool {
    let name = &**who.name();
    patterns.iter().any(|pattern| match pattern {
        Pattern::Exactly(exact) => **exact == *name,
        Pattern::Prefix(_) => name != ANONYMOUS && pattern.matches(name),
    })
}
