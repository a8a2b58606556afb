//! The caller of a request: its identity, its rights, and the checks every operation goes through.

use std::sync::Arc;
use std::time::Duration;

use leasehold_base::clock::LockClock;
use leasehold_core::{Asker, LeaseNumber, LockKey, Quota as Allowed, SessionRecord, Span};

use super::gate::Authority;
use super::need::{Governed, GovernedBy, Own};
use super::policy::{DISTRUSTED, EXPIRED, Policy, Quota, refusal};
use super::standing::Standing;
use super::trail::Trail;
use super::{By, Denied, Permitted, Principal, Right, View};

/// How often the rights of a waiting caller are re-checked if its credential can expire.
const RECHECK_EVERY: Duration = Duration::from_secs(1);

/// The client that made a request, as identified by its credentials.
#[derive(Clone, Debug)]
pub struct Caller {
    standing: Arc<Standing>,
    realm: Realm,
    /// Whether the client sent a credential that only a dialect can interpret, such as a session id.
    is_foreign: bool,
    /// Collects facts about the request for the audit file and the change log; `None` if neither is written.
    trail: Option<Arc<Trail>>,
}

/// Which rights a dialect uses: those on locks or those on files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Realm {
    Locks,
    Files,
}

impl Caller {
    /// Returns the caller of every request while authentication is off.
    pub fn unasked() -> Self {
        Self::of(Standing::unasked())
    }

    /// Returns a caller whose credential is wrong. It has the rights of an anonymous client.
    pub fn stranger(authority: Arc<Authority>) -> Self {
        Self::of(Standing::new(authority, Principal::anonymous(), None))
    }

    /// Returns the caller with this standing.
    pub(super) fn of(standing: Arc<Standing>) -> Self {
        Self { standing, realm: Realm::Locks, is_foreign: false, trail: None }
    }

    /// Returns the caller with this standing that also sent a credential only a dialect can interpret.
    pub(super) fn foreign(standing: Arc<Standing>) -> Self {
        Self { is_foreign: true, ..Self::of(standing) }
    }

    /// Returns this caller as `principal` under another policy.
    fn under(&self, authority: Arc<Authority>, principal: Principal) -> Self {
        let certified_by = self.standing.certified_by.clone();
        let standing = Standing::new(authority, principal, certified_by);
        Self { standing, ..self.clone() }
    }

    /// Returns the caller that opened this session, or `None` if the credential it used is no longer valid.
    pub fn of_session(&self, session: &SessionRecord, wall_ms: i64) -> Option<Self> {
        if !self.is_asked() {
            return Some(self.clone());
        }
        let name = session.owner.principal.clone();
        let principal = match &session.credential {
            Some(credential) => {
                let id = credential.id.clone();
                Principal::known(name, credential.groups.clone(), id)
            }
            None if Principal::anonymous().name() == &name => Principal::anonymous(),
            None => return None,
        };
        self.as_principal(principal, wall_ms)
    }

    /// Returns this caller as a previously identified principal, or `None` if its credential is no longer valid.
    pub(super) fn as_principal(&self, principal: Principal, wall_ms: i64) -> Option<Self> {
        let authority = self.authority()?;
        authority.vouches(&principal, wall_ms).then_some(())?;
        // If the request also carries a credential, both must name the same principal.
        let shown = self.principal();
        let is_other = !shown.is_anonymous() && shown.name() != principal.name();
        let as_whom = || Self { is_foreign: false, ..self.under(authority.clone(), principal) };
        (!is_other).then(as_whom)
    }

    /// Returns this caller with the rights on files instead of those on locks.
    pub fn of_files(self) -> Self {
        Self { realm: Realm::Files, ..self }
    }

    /// Returns this caller with a trail, so that its requests are audited or logged.
    pub fn followed(self, trail: Trail) -> Self {
        Self { trail: Some(Arc::new(trail)), ..self }
    }

    /// Returns the caller as audit records name it.
    pub fn by(&self) -> By {
        let trail = self.trail.as_ref();
        By {
            principal: self.principal().name().clone(),
            credential: self.principal().credential().clone(),
            rule: trail.map(|trail| trail.rule()).unwrap_or_default(),
            peer: trail.map(|trail| trail.peer().clone()).unwrap_or_default(),
        }
    }

    /// Returns the facts collected about the request, if it is audited or logged.
    #[inline]
    pub fn trail(&self) -> Option<&Trail> {
        self.trail.as_deref()
    }

    /// Returns the caller as the journal, the audit file and the change log record it.
    ///
    /// The principal is left empty if authentication is off (only the client's address is known) or without an audit
    /// file.
    fn asker(&self) -> Option<Arc<Asker>> {
        let trail = self.trail.as_ref()?;
        let By { principal, credential, rule, peer } = self.by();
        let call = trail.call(&principal).map(Arc::new);
        let is_kept = self.is_asked() && trail.is_audited();
        let principal = if is_kept { principal } else { "".into() };
        Some(Arc::new(Asker { principal, credential, rule, peer, call }))
    }

    /// Returns the identity of the caller.
    #[inline]
    pub fn principal(&self) -> &Principal {
        &self.standing.principal
    }

    /// Returns whether authentication is on.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.authority().is_some()
    }

    /// Returns the policy under which the caller was identified, or `None` if authentication is off.
    #[inline]
    pub fn authority(&self) -> Option<&Arc<Authority>> {
        self.standing.authority()
    }

    /// Returns the quota that applies to this caller, if there is one.
    pub(super) fn quota(&self) -> Option<&Quota> {
        self.standing.quota()
    }

    /// Returns the caller's quota of event streams, if there is one.
    pub fn streams_quota(&self) -> Option<Allowed> {
        self.quota().and_then(|quota| quota.streams)
    }

    /// Returns whether the client sent a credential that only a dialect can interpret.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Returns the principal that must own an object for it to be the caller's. `None` if authentication is off: then
    /// all clients are the same principal.
    #[inline]
    pub fn name_if_asked(&self) -> Option<Arc<str>> {
        self.authority().map(|_| self.principal().name().clone())
    }

    /// Returns whether the caller is this principal, and can therefore see the proof of its leases.
    #[inline]
    pub fn is(&self, principal: &str) -> bool {
        **self.principal().name() == *principal
    }

    /// Checks the caller's rights for `ask` and permits it. A permitted read returns only what the caller can see.
    pub fn permit<A: Governed>(&self, mut ask: A) -> Result<Permitted<A>, Denied> {
        ask.govern(self)?;
        Ok(Permitted::of(ask, self.asker()))
    }

    /// Permits an operation that needs no right, only the proof it carries. A caller that lost its rights can still
    /// release its leases.
    pub fn own<A: Own>(&self, mut ask: A) -> Permitted<A> {
        ask.bind(self);
        Permitted::of(ask, self.asker())
    }

    /// Permits listing the locks on which the caller has `right`, instead of the read right.
    pub fn permit_list<A: GovernedBy>(
        &self,
        right: Right,
        mut list: A,
    ) -> Result<Permitted<A>, Denied> {
        list.govern_by(right, self)?;
        Ok(Permitted::new(list))
    }

    /// Permits an operation if the caller has `right` on all of these locks, for operations that do not name their
    /// locks.
    pub fn permit_on<'a, A>(
        &self,
        right: Right,
        locks: impl IntoIterator<Item = &'a LockKey>,
        ask: A,
    ) -> Result<Permitted<A>, Denied> {
        locks.into_iter().try_for_each(|lock| self.check(right, lock))?;
        Ok(Permitted::of(ask, self.asker()))
    }

    #[inline]
    pub(super) fn is_of_files(&self) -> bool {
        self.realm == Realm::Files
    }

    /// Returns the right needed to read, in the caller's dialect.
    #[inline]
    pub fn to_look(&self) -> Right {
        if self.realm == Realm::Files { Right::FilesRead } else { Right::Read }
    }

    /// Returns the right needed to acquire, in the caller's dialect.
    #[inline]
    pub fn to_take(&self) -> Right {
        if self.realm == Realm::Files { Right::FilesWrite } else { Right::Acquire }
    }

    /// Checks that the caller has this right on this lock. The lock does not have to exist.
    pub fn check(&self, right: Right, lock: &LockKey) -> Result<(), Denied> {
        if !self.is_asked() {
            return Ok(());
        }
        let rule = self.standing.rule(right, lock);
        if let Some(trail) = &self.trail {
            trail.note(rule, right, Some(lock));
        }
        self.denied_unless(rule.is_some(), || refusal(self.principal(), right, lock))
    }

    /// Checks that the caller has this right on at least some lock names in `namespace`, or in any namespace if `None`.
    pub fn check_somewhere(&self, right: Right, namespace: Option<&str>) -> Result<(), Denied> {
        if !self.is_asked() {
            return Ok(());
        }
        let rule = self.standing.rule_somewhere(right, namespace);
        if let Some(trail) = &self.trail {
            trail.note(rule, right, None);
        }
        self.denied_unless(rule.is_some(), || {
            let who = self.principal().name();
            match namespace {
                Some(namespace) => {
                    format!("{who} may not {right} anything in {namespace:?}: no rule grants it")
                }
                None => format!("{who} may not {right} anything: no rule grants it"),
            }
        })
    }

    /// Checks that the caller has this right on all locks in all namespaces.
    pub fn check_everywhere(&self, right: Right) -> Result<(), Denied> {
        if !self.is_asked() {
            return Ok(());
        }
        let rule = self.standing.rule_everywhere(right);
        if let Some(trail) = &self.trail {
            trail.note(rule, right, None);
        }
        self.denied_unless(rule.is_some(), || {
            let who = self.principal().name();
            format!("{who} needs the right {right} on every namespace: no rule grants it")
        })
    }

    /// Checks that the caller can administer the server.
    pub fn check_admin(&self) -> Result<(), Denied> {
        self.check_everywhere(Right::Admin)
    }

    /// Checks that the caller has any right at all. A client without credentials and rights is rejected before its
    /// request body is read.
    pub fn check_known(&self) -> Result<(), Denied> {
        if !self.is_asked() {
            return Ok(());
        }
        let is_known = !self.principal().is_anonymous() || self.standing.has_rules();
        self.denied_unless(is_known, || self.no_credential())
    }

    /// Returns whether the caller can revoke every lock. Its acts are then written to the operator audit file.
    pub fn is_operator(&self) -> bool {
        self.standing.rule_everywhere(Right::Revoke).is_some()
    }

    /// Returns this caller as the principal it has just signed in as.
    pub fn signed_in(&self, principal: Principal) -> Self {
        match self.authority().cloned() {
            Some(authority) => self.under(authority, principal),
            None => self.clone(),
        }
    }

    /// Returns the filter for lists: the locks on which the caller has this right.
    pub fn view(&self, right: Right) -> View {
        match self.is_asked() {
            false => View::default(),
            true => View::new(self.standing.clone(), right),
        }
    }

    /// Returns the filter for lists that also shows the caller's own leases.
    pub fn view_with_own(&self, right: Right) -> View {
        match self.is_asked() {
            false => View::default(),
            true => View::with_own(self.standing.clone(), right),
        }
    }

    /// Returns this caller under the policy in force now, for long-running requests.
    pub fn by_now(&self) -> Self {
        let gate = self.authority().and_then(|authority| authority.gate());
        match (gate.and_then(|gate| gate.authority()), self.authority()) {
            (Some(now), Some(before)) if !Arc::ptr_eq(&now, before) => {
                self.under(now, self.principal().clone())
            }
            _ => self.clone(),
        }
    }

    /// Returns this caller under the current policy. Fails if its credential or its client certificate is no longer
    /// valid.
    pub fn still(&self, clock: &LockClock) -> Result<Self, Denied> {
        let now = self.by_now();
        let Some(authority) = now.authority() else { return Ok(now) };
        if let Some(id) = &self.standing.certified_by
            && authority.mtls().is_none_or(|mtls| mtls.id() != id)
        {
            return Err(Denied::Unauthenticated(DISTRUSTED.into()));
        }
        if authority.vouches(self.principal(), clock.wall_ms()) {
            return Ok(now);
        }
        let is_of_certificate = Policy::is_of_certificate(self.principal().name());
        let why = if is_of_certificate { EXPIRED } else { NO_LONGER };
        Err(Denied::Unauthenticated(why.into()))
    }

    /// Returns how long the caller can wait: at most `wait`, and not past the end of its token or sign-in.
    ///
    /// The limit also applies to waiters that are not connected at that time. API keys are not considered here: two
    /// keys with one name are the same principal, so the server checks their expiry during the wait.
    pub fn patience(&self, wait: Span, clock: &LockClock) -> Span {
        let Some(ends_ms) = self.principal().ends_ms() else { return wait };
        let left_ms = u64::try_from(ends_ms.saturating_sub(clock.wall_ms())).unwrap_or(0);
        wait.min(Span::from_millis(left_ms.max(1)))
    }

    /// Records that this waiting lease belongs to the caller, so that the wait ends if the caller loses its rights,
    /// even while it is disconnected.
    pub fn waits_with(&self, lease: LeaseNumber) {
        let who = self.principal();
        // For anonymous callers and API keys the name in the journal is enough.
        let is_named = who.is_anonymous() || Policy::is_of_key(who.name());
        let gate = self.authority().filter(|_| !is_named).and_then(|authority| authority.gate());
        if let Some(waits) = gate.as_ref().and_then(|gate| gate.waits()) {
            waits.add(lease, who);
        }
    }

    /// Returns the error text for a request without a credential, with the kinds of credentials the server accepts.
    fn no_credential(&self) -> String {
        let accepted = self.authority().map(|authority| authority.accepted());
        format!("no credential was sent; accepted: {}", accepted.unwrap_or_default())
    }

    fn denied_unless(&self, holds: bool, why: impl FnOnce() -> String) -> Result<(), Denied> {
        match (holds, self.principal().is_anonymous()) {
            (true, _) => Ok(()),
            (false, true) => Err(Denied::Unauthenticated(self.no_credential())),
            (false, false) => Err(Denied::Forbidden(why())),
        }
    }

    /// Waits until `check` fails for this caller, for example because its key expired or its right was removed.
    ///
    /// Never returns if authentication is off.
    pub async fn denied(
        &self,
        clock: &LockClock,
        check: impl Fn(&Self) -> Result<(), Denied>,
    ) -> Denied {
        let gate = self.authority().and_then(|authority| authority.gate());
        let Some((gate, mut changes)) = gate.and_then(|gate| gate.changes().map(|c| (gate, c)))
        else {
            return std::future::pending().await;
        };
        loop {
            let Some(authority) = gate.authority() else { return std::future::pending().await };
            let expires = authority.is_passing(self.principal());
            if let Err(denied) = self.still(clock).and_then(|now| check(&now)) {
                return denied;
            }
            let recheck = async {
                if !expires {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(RECHECK_EVERY).await;
            };
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                }
                () = recheck => {}
            }
        }
    }
}

const NO_LONGER: &str = "the credential is no longer valid: it was revoked or has expired";
