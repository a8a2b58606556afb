//! Whoever asks, and what they are refused.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use leasehold_core::LockKey;

use super::need::{self, Governed, Own};
use super::{Permitted, Principal, Right};
use crate::door::Arrival;
use crate::engine::ListLocks;

/// Whoever asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    principal: Principal,
    realm: Realm,
}

/// What the rights of a dialect are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Realm {
    Locks,
    Files,
}

impl Caller {
    pub(crate) fn new(principal: Principal) -> Self {
        Self { principal, realm: Realm::Locks }
    }

    /// The same in the dialect of files, where other rights count.
    pub(crate) fn of_files(self) -> Self {
        Self { realm: Realm::Files, ..self }
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// May it ask this? What it may see of the answer is decided with it.
    pub(crate) fn permit<A: Governed>(&self, mut ask: A) -> Result<Permitted<A>, Denied> {
        ask.govern(self)?;
        Ok(Permitted::new(ask))
    }

    /// What needs no right but the proof that comes with it: whoever loses a right can still give back what they have.
    pub(crate) fn own<A: Own>(&self, ask: A) -> Permitted<A> {
        Permitted::new(ask)
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
        Ok(Permitted::new(ask))
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

    pub(crate) fn check(&self, _right: Right, _lock: &LockKey) -> Result<(), Denied> {
        Ok(())
    }

    /// Is there any lock in `namespace` it has this right on? Without a namespace: in any.
    pub(super) fn check_somewhere(
        &self,
        _right: Right,
        _namespace: Option<&Arc<str>>,
    ) -> Result<(), Denied> {
        Ok(())
    }

    pub(super) fn check_admin(&self) -> Result<(), Denied> {
        Ok(())
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Arrival::of(parts).caller.clone())
    }
}

/// Somebody may not do what they ask.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(dead_code, reason = "without a policy nobody is refused anything")]
pub(crate) enum Denied {
    /// Nobody knows who asks (401).
    Unauthenticated(String),
    /// It is known who asks, and no rule lets them (403).
    Forbidden(String),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Unauthenticated(why) | Denied::Forbidden(why) => f.write_str(why),
        }
    }
}
