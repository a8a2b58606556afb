//! Whoever asks, and what they are refused.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use leasehold_core::{Asker, LeaseNumber, LockKey, Quota as Allowed, SessionRecord, Span};

use super::gate::Authority;
use super::need::{self, Governed, Own};
use super::policy::{DISTRUSTED, EXPIRED, Policy, Quota, refusal};
use super::standing::Standing;
use super::trail::Trail;
use super::{Denied, Permitted, Principal, Right, View};
use crate::audit::By;
use crate::content::ToRead;
use crate::door::Arrival;
use crate::engine::{EngineHandle, ListLocks, ReadLease, ReadLock, ReadSession};

/// A credential that expires is looked at this often while somebody waits by it.
const RECHECK_EVERY: Duration = Duration::from_secs(1);

/// Whoever asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    standing: Arc<Standing>,
    realm: Realm,
    /// It showed something that only a dialect can tell the meaning of.
    is_foreign: bool,
    /// What it does is written down; `None`: it is not.
    trail: Option<Arc<Trail>>,
}

/// What the rights of a dialect are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Realm {
    Locks,
    Files,
}

impl Caller {
    /// Nobody asks who anybody is.
    pub(crate) fn unasked() -> Self {
        Self::of(Standing::unasked())
    }

    /// Somebody whose credential is wrong: no more than whoever shows none.
    pub(crate) fn stranger(authority: Arc<Authority>) -> Self {
        Self::of(Standing::new(authority, Principal::anonymous(), None))
    }

    /// Whoever stands so.
    pub(super) fn of(standing: Arc<Standing>) -> Self {
        Self { standing, realm: Realm::Locks, is_foreign: false, trail: None }
    }

    /// Whoever shows, beside that, what only a dialect can tell the meaning of.
    pub(super) fn foreign(standing: Arc<Standing>) -> Self {
        Self { is_foreign: true, ..Self::of(standing) }
    }

    /// The same by what another policy says of whom it is.
    fn under(&self, authority: Arc<Authority>, principal: Principal) -> Self {
        let certified_by = self.standing.certified_by.clone();
        let standing = Standing::new(authority, principal, certified_by);
        Self { standing, ..self.clone() }
    }

    /// Whoever opened this session, if what it was opened with still counts.
    pub(crate) fn of_session(&self, session: &SessionRecord, wall_ms: i64) -> Option<Self> {
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

    /// Whoever was let in before, if what they showed then still counts.
    pub(super) fn as_principal(&self, principal: Principal, wall_ms: i64) -> Option<Self> {
        let authority = self.authority()?;
        authority.vouches(&principal, wall_ms).then_some(())?;
        // Whoever shows two credentials must be the same by both.
        let shown = self.principal();
        let is_other = !shown.is_anonymous() && shown.name() != principal.name();
        let as_whom = || Self { is_foreign: false, ..self.under(authority.clone(), principal) };
        (!is_other).then(as_whom)
    }

    /// The same in the dialect of files, where other rights count.
    pub(crate) fn of_files(self) -> Self {
        Self { realm: Realm::Files, ..self }
    }

    /// The same, and what it does is written down.
    pub(crate) fn followed(self, trail: Trail) -> Self {
        Self { trail: Some(Arc::new(trail)), ..self }
    }

    /// Who it is, for what is written down.
    pub(crate) fn by(&self) -> By {
        let trail = self.trail.as_ref();
        By {
            principal: self.principal().name().clone(),
            credential: self.principal().credential().clone(),
            rule: trail.map(|trail| trail.rule()).unwrap_or_default(),
            peer: trail.map(|trail| trail.peer().clone()).unwrap_or_default(),
        }
    }

    pub(crate) fn trail(&self) -> Option<&Trail> {
        self.trail.as_deref()
    }

    /// For the journal, the audit file and the log. Where nobody is asked who they are, only from where they ask is
    /// known, and that is not kept; nor is anything without an audit file.
    fn asker(&self) -> Option<Arc<Asker>> {
        let trail = self.trail.as_ref()?;
        let By { principal, credential, rule, peer } = self.by();
        let call = trail.call(&principal).map(Arc::new);
        let is_kept = self.is_asked() && trail.is_audited();
        let principal = if is_kept { principal } else { "".into() };
        Some(Arc::new(Asker { principal, credential, rule, peer, call }))
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.standing.principal
    }

    /// Is anybody asked who they are?
    pub(crate) fn is_asked(&self) -> bool {
        self.authority().is_some()
    }

    pub(crate) fn authority(&self) -> Option<&Arc<Authority>> {
        self.standing.authority()
    }

    /// What they may have, and how often they may ask, if that is less than anybody.
    pub(super) fn quota(&self) -> Option<&Quota> {
        self.standing.quota()
    }

    /// The quota of event streams, if there is one.
    pub(crate) fn streams_quota(&self) -> Option<Allowed> {
        self.quota().and_then(|quota| quota.streams)
    }

    /// Did they show a credential that is none of ours? A dialect may know it.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Whose something must be to be their own. `None`: nobody is told apart.
    pub(crate) fn name_if_asked(&self) -> Option<Arc<str>> {
        self.authority().map(|_| self.principal().name().clone())
    }

    /// May they see what proves a lease of this principal?
    pub(crate) fn is(&self, principal: &str) -> bool {
        **self.principal().name() == *principal
    }

    /// May it ask this? What it may see of the answer is decided with it.
    pub(crate) fn permit<A: Governed>(&self, mut ask: A) -> Result<Permitted<A>, Denied> {
        ask.govern(self)?;
        Ok(Permitted::of(ask, self.asker()))
    }

    /// What needs no right but the proof that comes with it: whoever loses a right can still give back what they have.
    pub(crate) fn own<A: Own>(&self, mut ask: A) -> Permitted<A> {
        ask.bind(self);
        Permitted::of(ask, self.asker())
    }

    /// A session, by its secret, to find out whose it is: for a dialect in which a session is the credential.
    pub(crate) fn look_up(&self, read: ReadSession) -> Permitted<ReadSession> {
        Permitted::new(read)
    }

    /// A folder, for a handler that only looks whether there is one.
    pub(crate) fn find_folder(&self, folder: ToRead) -> Permitted<ToRead> {
        Permitted::new(folder)
    }

    /// A lock, for a handler that looks for a lease of the caller's own in it and shows nothing else.
    pub(crate) fn find_own(&self, read: ReadLock) -> Permitted<ReadLock> {
        Permitted::new(read)
    }

    /// A lock, for a line in the audit files: its reader is told nothing of it.
    pub(crate) fn audit_lock(&self, read: ReadLock) -> Permitted<ReadLock> {
        Permitted::new(read)
    }

    /// The same of a lease.
    pub(crate) fn audit_lease(&self, read: ReadLease) -> Permitted<ReadLease> {
        Permitted::new(read)
    }

    /// A list of what it has another right on than that to look.
    pub(crate) fn permit_list(
        &self,
        right: Right,
        mut list: ListLocks,
    ) -> Result<Permitted<ListLocks>, Denied> {
        need::list(&mut list, right, self)?;
        Ok(Permitted::new(list))
    }

    /// Something whose proof does not say which locks it is about.
    pub(crate) fn permit_on<'a, A>(
        &self,
        right: Right,
        locks: impl IntoIterator<Item = &'a LockKey>,
        ask: A,
    ) -> Result<Permitted<A>, Denied> {
        locks.into_iter().try_for_each(|lock| self.check(right, lock))?;
        Ok(Permitted::of(ask, self.asker()))
    }

    pub(super) fn is_of_files(&self) -> bool {
        self.realm == Realm::Files
    }

    /// The right that looking takes in its dialect.
    pub(super) fn to_look(&self) -> Right {
        if self.realm == Realm::Files { Right::FilesRead } else { Right::Read }
    }

    /// The right that taking takes in its dialect.
    pub(super) fn to_take(&self) -> Right {
        if self.realm == Realm::Files { Right::FilesWrite } else { Right::Acquire }
    }

    /// May it do this to this lock? Whether or not there is such a lock.
    pub(crate) fn check(&self, right: Right, lock: &LockKey) -> Result<(), Denied> {
        if !self.is_asked() {
            return Ok(());
        }
        let rule = self.standing.rule(right, lock);
        if let Some(trail) = &self.trail {
            trail.note(rule, right, Some(lock));
        }
        self.denied_unless(rule.is_some(), || refusal(self.principal(), right, lock))
    }

    /// Is there any lock in `namespace` it has this right on? Without a namespace: in any.
    pub(crate) fn check_somewhere(
        &self,
        right: Right,
        namespace: Option<&str>,
    ) -> Result<(), Denied> {
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

    /// May it do this in every namespace?
    pub(crate) fn check_everywhere(&self, right: Right) -> Result<(), Denied> {
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

    /// What is asked of the server itself.
    pub(super) fn check_admin(&self) -> Result<(), Denied> {
        self.check_everywhere(Right::Admin)
    }

    /// Is there anything at all this caller may do? Whoever shows nothing and may nothing is told so before their
    /// body is read.
    pub(crate) fn check_known(&self) -> Result<(), Denied> {
        if !self.is_asked() {
            return Ok(());
        }
        let is_known = !self.principal().is_anonymous() || self.standing.has_rules();
        self.denied_unless(is_known, || self.no_credential())
    }

    /// May the caller revoke any lock? Then its acts go to the audit file of operators.
    pub(crate) fn is_operator(&self) -> bool {
        self.standing.rule_everywhere(Right::Revoke).is_some()
    }

    /// Whom they have just proved to be.
    pub(crate) fn signed_in(&self, principal: Principal) -> Self {
        match self.authority().cloned() {
            Some(authority) => self.under(authority, principal),
            None => self.clone(),
        }
    }

    /// What it may see of many.
    pub(super) fn view(&self, right: Right) -> View {
        match self.is_asked() {
            false => View::default(),
            true => View::new(self.standing.clone(), right),
        }
    }

    /// The same, and what is its own.
    pub(super) fn view_with_own(&self, right: Right) -> View {
        match self.is_asked() {
            false => View::default(),
            true => View::with_own(self.standing.clone(), right),
        }
    }

    /// The same caller by the policy in force now: for what goes on for long.
    pub(crate) fn by_now(&self) -> Self {
        let gate = self.authority().and_then(|authority| authority.gate());
        match (gate.and_then(|gate| gate.authority()), self.authority()) {
            (Some(now), Some(before)) if !Arc::ptr_eq(&now, before) => {
                self.under(now, self.principal().clone())
            }
            _ => self.clone(),
        }
    }

    /// The same, if what they showed still counts, and the certificate they came by.
    pub(crate) fn still(&self, engine: &EngineHandle) -> Result<Self, Denied> {
        let now = self.by_now();
        let Some(authority) = now.authority() else { return Ok(now) };
        if let Some(id) = &self.standing.certified_by
            && authority.mtls().is_none_or(|mtls| mtls.id() != id)
        {
            return Err(Denied::Unauthenticated(DISTRUSTED.into()));
        }
        if authority.vouches(self.principal(), engine.wall_ms()) {
            return Ok(now);
        }
        let is_of_certificate = Policy::is_of_certificate(self.principal().name());
        let why = if is_of_certificate { EXPIRED } else { NO_LONGER };
        Err(Denied::Unauthenticated(why.into()))
    }

    /// How long somebody may wait who would wait so long: not beyond the end of the token or the sign-in they came by,
    /// also if nobody is there to look by then. Two keys of a name are one principal, so a key's end is looked up.
    pub(crate) fn patience(&self, wait: Span, engine: &EngineHandle) -> Span {
        let Some(ends_ms) = self.principal().ends_ms() else { return wait };
        let left_ms = u64::try_from(ends_ms.saturating_sub(engine.wall_ms())).unwrap_or(0);
        wait.min(Span::from_millis(left_ms.max(1)))
    }

    /// From now on this lease waits for them, whether they are connected or not.
    pub(crate) fn waits_with(&self, lease: LeaseNumber) {
        let who = self.principal();
        // A name is all there is to know of these.
        let is_named = who.is_anonymous() || Policy::is_of_key(who.name());
        let gate = self.authority().filter(|_| !is_named).and_then(|authority| authority.gate());
        if let Some(waits) = gate.as_ref().and_then(|gate| gate.waits()) {
            waits.add(lease, who);
        }
    }

    /// That nothing was sent, and what is accepted.
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

    /// Waits until this caller may not do any more what `check` checks: its key was revoked or has expired, or its
    /// right is gone. For ever, if nobody is asked who they are.
    pub(crate) async fn denied(
        &self,
        engine: &EngineHandle,
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
            if let Err(denied) = self.still(engine).and_then(|now| check(&now)) {
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

const NO_LONGER: &str = "the credential is not valid any more: it was revoked or has expired";

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Arrival::of(parts).caller.clone())
    }
}
