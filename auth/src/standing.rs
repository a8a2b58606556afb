//! A principal with the rules and quota that apply to it, looked up once instead of for every check.

use std::sync::Arc;

use leasehold_core::LockKey;

use super::gate::Authority;
use super::policy::{Quota, Rule};
use super::{Principal, Right};

/// A principal with its rules and quota under one policy. The requests of a connection share it; connections do not.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) principal: Principal,
    /// The `[mtls]` settings (by id) under which the connection's certificate was accepted, even if another credential
    /// identifies the caller.
    pub(super) certified_by: Option<Arc<str>>,
    /// `None`: authentication is off and every caller has full access.
    by: Option<Authorization>,
}

#[derive(Debug)]
struct Authorization {
    authority: Arc<Authority>,
    /// Indexes of the rules that apply to the principal.
    rules: Box<[usize]>,
    quota: Option<usize>,
}

impl Standing {
    /// Returns the standing of every caller while authentication is off.
    pub(super) fn unasked() -> Arc<Self> {
        Arc::new(Self { principal: Principal::anonymous(), certified_by: None, by: None })
    }

    pub(super) fn new(
        authority: Arc<Authority>,
        principal: Principal,
        certified_by: Option<Arc<str>>,
    ) -> Arc<Self> {
        let (rules, quota) = (authority.about(&principal), authority.quota_of(&principal));
        let by = Some(Authorization { authority, rules, quota });
        Arc::new(Self { principal, certified_by, by })
    }

    #[inline]
    pub(super) fn authority(&self) -> Option<&Arc<Authority>> {
        self.by.as_ref().map(|by| &by.authority)
    }

    /// Returns whether any rule applies to the principal.
    pub(super) fn has_rules(&self) -> bool {
        self.by.as_ref().is_some_and(|by| !by.rules.is_empty())
    }

    /// Returns the rules that grant the principal this right on any lock.
    pub(super) fn granting(&self, right: Right) -> impl Iterator<Item = &Rule> {
        let by = self.by.as_ref();
        let places = by.map_or(&[][..], |by| &by.rules);
        let at = move |place: &usize| by.and_then(|by| by.authority.rule_at(*place));
        places.iter().filter_map(at).filter(move |rule| rule.grants(right))
    }

    /// Returns a rule that grants this right on this lock, if there is one.
    pub(super) fn rule(&self, right: Right, lock: &LockKey) -> Option<&Rule> {
        self.granting(right).find(|rule| rule.covers(&lock.namespace, &lock.name))
    }

    /// Returns a rule that grants this right on some locks in `namespace`, or in any namespace if `None`.
    pub(super) fn rule_somewhere(&self, right: Right, namespace: Option<&str>) -> Option<&Rule> {
        let is_in = |rule: &&Rule| namespace.is_none_or(|name| rule.covers_namespace(name));
        self.granting(right).find(is_in)
    }

    /// Returns a rule that grants this right on all locks in all namespaces.
    pub(super) fn rule_everywhere(&self, right: Right) -> Option<&Rule> {
        let is_all = |rule: &&Rule| rule.covers_all_namespaces() && rule.covers_all_names();
        self.granting(right).find(is_all)
    }

    /// Returns the quota that applies to the principal.
    #[inline]
    pub(super) fn quota(&self) -> Option<&Quota> {
        let by = self.by.as_ref()?;
        by.quota.and_then(|at| by.authority.quota_at(at))
    }
}
