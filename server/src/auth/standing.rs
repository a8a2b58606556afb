//! Somebody who is known, and what the policy says of them: looked up once, not for every question they ask.

use std::sync::Arc;

use leasehold_core::LockKey;

use super::gate::Authority;
use super::policy::{Quota, Rule};
use super::{Principal, Right};

/// Where somebody stands with a policy. A connection shares one between its requests, and with no other connection.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) principal: Principal,
    /// Who the certificate of the connection was let in by: an id of `[mtls]`, whatever else proves who asks.
    pub(super) certified_by: Option<Arc<str>>,
    /// `None`: nobody is asked who they are, and everybody may everything.
    by: Option<By>,
}

#[derive(Debug)]
struct By {
    authority: Arc<Authority>,
    /// The places of the rules that are about them, and of their quota.
    rules: Box<[usize]>,
    quota: Option<usize>,
}

impl Standing {
    /// Everybody's where nobody is asked.
    pub(super) fn unasked() -> Arc<Self> {
        Arc::new(Self { principal: Principal::anonymous(), certified_by: None, by: None })
    }

    pub(super) fn new(
        authority: Arc<Authority>,
        principal: Principal,
        certified_by: Option<Arc<str>>,
    ) -> Arc<Self> {
        let (rules, quota) = (authority.about(&principal), authority.quota_of(&principal));
        let by = Some(By { authority, rules, quota });
        Arc::new(Self { principal, certified_by, by })
    }

    pub(super) fn authority(&self) -> Option<&Arc<Authority>> {
        self.by.as_ref().map(|by| &by.authority)
    }

    /// Is any rule about them?
    pub(super) fn has_rules(&self) -> bool {
        self.by.as_ref().is_some_and(|by| !by.rules.is_empty())
    }

    /// The rules that give them this right anywhere.
    pub(super) fn granting(&self, right: Right) -> impl Iterator<Item = &Rule> {
        let by = self.by.as_ref();
        let places = by.map_or(&[][..], |by| &by.rules);
        let at = move |place: &usize| by.and_then(|by| by.authority.rule_at(*place));
        places.iter().filter_map(at).filter(move |rule| rule.grants(right))
    }

    /// The rule that lets them do this to this lock, if there is one.
    pub(super) fn rule(&self, right: Right, lock: &LockKey) -> Option<&Rule> {
        self.granting(right).find(|rule| rule.covers(&lock.namespace, &lock.name))
    }

    /// The rule that lets them do this on some lock of `namespace`, or of any.
    pub(super) fn rule_somewhere(&self, right: Right, namespace: Option<&str>) -> Option<&Rule> {
        let is_in = |rule: &&Rule| namespace.is_none_or(|name| rule.covers_namespace(name));
        self.granting(right).find(is_in)
    }

    /// The rule that lets them do this in every namespace.
    pub(super) fn rule_everywhere(&self, right: Right) -> Option<&Rule> {
        let is_all = |rule: &&Rule| rule.covers_all_namespaces() && rule.covers_all_names();
        self.granting(right).find(is_all)
    }

    /// What they may have, and how often they may ask.
    pub(super) fn quota(&self) -> Option<&Quota> {
        let by = self.by.as_ref()?;
        by.quota.and_then(|at| by.authority.quota_at(at))
    }
}
