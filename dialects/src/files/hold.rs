//! Locks on files while they are being written.

use leasehold_auth::{Caller, Permitted};
use leasehold_core::{Extend, LeaseView, LockKey, LockView, Owner, Rejection, Secret, Timestamp};
use leasehold_engine::{self as engine, ReadLock, Undelivered};

use super::Files;
use super::error::Refusal;
use super::session::Session;
use super::wire::Locked;
use crate::app::App;
use crate::audit::{Act, Kind};
use crate::content::{Extent, FilePath, Reach, Scope, ToWrite};
use crate::grip::{Grip, InTheWay, Obstacle, Terms};
use crate::{Dialect, owner};

/// A session's lock on a file or folder, and the other locks that a change needs. When dropped, it releases the locks
/// that this change acquired.
pub(super) struct Hold {
    files: Files,
    caller: Caller,
    key: LockKey,
    lock: Grip,
    /// Whether this change acquired the lock, and so releases it however the change ends.
    is_ours: bool,
    /// The parts that the session's lock does not cover. This change acquired them.
    beside: Option<Grip>,
    deadline: Option<Timestamp>,
}

/// How a change affects the parent folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// Not at all: the file exists and stays.
    Content,
    /// A member is added to the folder or removed from it.
    Member,
}

impl Hold {
    /// Acquires the lock, or renews the one that the session already holds.
    pub(super) async fn take(
        files: &Files,
        session: &Session,
        path: &Permitted<ToWrite>,
        reach: Reach,
        change: Change,
    ) -> Result<Self, Refusal> {
        let app = &files.app;
        let extent = Extent::to_change(app, path, reach, change == Change::Member);
        let hold = |lock, is_ours, beside| {
            let (files, caller) = (files.clone(), session.caller.clone());
            Self { files, caller, key: path.lock(app), lock, is_ours, beside, deadline: None }
        };
        let (lock, undelivered) = match take(files, session, path, &extent).await {
            Err(obstacle) if is_for_holder(&obstacle, session) => {
                let Some(lock) = renewed(files, session, path).await? else {
                    return Err(refused(app, obstacle));
                };
                return hold(lock, false, None).with_rest(session, path, extent).await;
            }
            taken => taken.map_err(|obstacle| refused(app, obstacle))?,
        };
        // From here on, the change releases the lock itself, because the lock might have been renewed in the meantime.
        undelivered.into_iter().for_each(Undelivered::delivered);
        Ok(hold(lock, true, None))
    }

    /// Also acquires the parts that the session's lock does not cover.
    async fn with_rest(
        mut self,
        session: &Session,
        path: &Permitted<ToWrite>,
        extent: Extent,
    ) -> Result<Self, Refusal> {
        let own = Extent::new(&self.files.app, path, Scope::Exclusive, Reach::Itself);
        let rest = extent.without(|part| own.parts().iter().any(|own| own.key == part.key));
        if rest.parts().is_empty() {
            return Ok(self);
        }
        let taken = take(&self.files, session, path, &rest).await;
        let (beside, undelivered) = taken.map_err(|obstacle| refused(&self.files.app, obstacle))?;
        undelivered.into_iter().for_each(Undelivered::delivered);
        self.beside = Some(beside);
        Ok(self)
    }

    /// Makes sure that the lock lasts long enough to publish the change. Fails if the lock was lost in the meantime:
    /// another client might have written, so this change must not be published.
    pub(super) async fn secure(&mut self) -> Result<(), Refusal> {
        let app = &self.files.app;
        let grips: Vec<_> = std::iter::once(&self.lock).chain(&self.beside).collect();
        let secured = Grip::secure(app, &self.caller, &grips).await;
        match secured.map_err(|obstacle| refused(app, obstacle))? {
            Ok(deadline) => {
                self.deadline = deadline;
                Ok(())
            }
            Err(_) => Err(self.lost().await),
        }
    }

    /// Returns a check of whether no other client can have acquired the lock yet. The thread that publishes calls it
    /// last, because it might have been suspended before.
    pub(super) fn watch(&self) -> impl Fn() -> bool + Send + 'static {
        let (engine, deadline) = (self.files.app.engine.clone(), self.deadline);
        move || deadline.is_none_or(|deadline| engine.now() < deadline)
    }

    /// Records a change in the audit files.
    pub(super) fn note(&self, act: &'static str, path: &FilePath, more: impl FnOnce(Act) -> Act) {
        let app = &self.files.app;
        let lock = governing(app, path);
        app.note_of(Kind::Content, &self.caller, act, |act| more(act.on(&lock)));
    }

    /// Returns the error for a lock that was lost. It names the new holder, if there is one.
    pub(super) async fn lost(&mut self) -> Refusal {
        let app = &self.files.app;
        match look(&self.files, &self.caller, self.key.clone()).await {
            Ok(view) => match view.holders.first().filter(|by| by.id != self.lock.lease.id) {
                Some(by) => Refusal::Locked(Box::new(Locked::by(app, by))),
                None => {
                    let mut locked = Locked::by(app, &self.lock.lease);
                    locked.message = "The lock was lost before the write was complete";
                    Refusal::Locked(Box::new(locked))
                }
            },
            Err(refusal) => refusal,
        }
    }

    /// Releases the lock after a write, even if the session held it before.
    pub(super) async fn give_back(mut self) -> Result<(), Refusal> {
        self.is_ours = true;
        self.leave().await
    }

    /// Releases what this change acquired. A lock that the session held before stays held.
    pub(super) async fn leave(mut self) -> Result<(), Refusal> {
        // Rejections are ignored: if the lock was revoked in the meantime, that happened after the change.
        if let Some(beside) = self.beside.take() {
            beside.release(&self.files.app, &self.caller).await?;
        }
        if std::mem::take(&mut self.is_ours) {
            self.lock.release(&self.files.app, &self.caller).await?;
        }
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let ours = Some(&self.lock).filter(|_| self.is_ours);
        for grip in ours.into_iter().chain(&self.beside) {
            grip.drop_later(&self.files.app, &self.caller);
        }
    }
}

/// Acquires a file's lock for a session, or renews it if the session already holds it.
pub(super) async fn acquire(
    files: &Files,
    session: &Session,
    path: &FilePath,
) -> Result<Option<Undelivered>, Refusal> {
    let extent = Extent::new(&files.app, path, Scope::Exclusive, Reach::Itself);
    match take(files, session, path, &extent).await {
        Ok((_, undelivered)) => Ok(undelivered),
        Err(obstacle) if is_for_holder(&obstacle, session) => {
            match renewed(files, session, path).await? {
                Some(_) => Ok(None),
                None => Err(refused(&files.app, obstacle)),
            }
        }
        Err(obstacle) => Err(refused(&files.app, obstacle)),
    }
}

async fn take(
    files: &Files,
    session: &Session,
    path: &FilePath,
    extent: &Extent,
) -> Result<(Grip, Option<Undelivered>), Obstacle> {
    let app = &files.app;
    let lock = path.lock(app);
    // The lock of a long path has a shortened name, so the path itself is stored with the lease.
    let metadata = (*lock.name != *path.as_str()).then(|| path.as_str().as_bytes().into());
    let terms = Terms {
        owner: session.owner(),
        dialect: Dialect::Files,
        ttl: app.dialect.files.lock_ttl,
        session: Some(session.digest),
        metadata,
        secret: Secret(leasehold_base::random::bytes()),
        peer: None,
    };
    Grip::take(app, &session.caller, vec![governing(app, path)], extent, terms).await
}

/// Returns the lock on which a caller needs a right to change this path.
fn governing(app: &App, path: &FilePath) -> LockKey {
    LockKey::new(app.dialect.files.namespace.clone(), path.as_str())
}

/// Returns whether the session can proceed if it already holds the lock. In maintenance, and while there is no space,
/// no lock is granted, but held locks remain valid.
fn is_for_holder(obstacle: &Obstacle, session: &Session) -> bool {
    match obstacle {
        Obstacle::Held(way) => is_own(way, session),
        Obstacle::Rejected(why) => *why == Rejection::Maintenance,
        Obstacle::Engine(why) => {
            use engine::Error::{DiskFull, JournalFull, StoreFull};
            matches!(why, DiskFull | JournalFull | StoreFull)
        }
        _ => false,
    }
}

/// Returns whether the conflicting lock belongs to this session.
fn is_own(way: &InTheWay, session: &Session) -> bool {
    let dialect = way.holding.lease.map(|(dialect, _)| dialect);
    way.holding.owner == Some(session.owner()) && dialect == Some(Dialect::Files.number())
}

/// Returns the lock that the session holds on a file. It needs no right to read: every caller can see its own locks.
pub(super) async fn own(
    files: &Files,
    session: &Session,
    path: &FilePath,
) -> Result<Option<Grip>, Refusal> {
    let key = path.lock(&files.app);
    let read = ReadLock { key, n_queue_max: 0 };
    let view = files.app.engine.ask(session.caller.find_own(read)).await??;
    let is_own = |lease: &LeaseView| {
        lease.owner == session.owner() && lease.dialect == Dialect::Files.number()
    };
    let of = vec![governing(&files.app, path)];
    Ok(view.holders.into_iter().find(is_own).map(|lease| Grip::of(of, lease)))
}

/// Returns the same lock, renewed for the full TTL.
pub(super) async fn renewed(
    files: &Files,
    session: &Session,
    path: &FilePath,
) -> Result<Option<Grip>, Refusal> {
    let app = &files.app;
    let Some(grip) = own(files, session, path).await? else { return Ok(None) };
    let extend = Extend::Exactly(app.dialect.files.lock_ttl);
    let renewed = Grip::renew(app, &session.caller, &[&grip], extend).await;
    let renewed = renewed.map_err(|obstacle| refused(app, obstacle))?;
    Ok(renewed.is_ok().then_some(grip))
}

fn refused(app: &App, obstacle: Obstacle) -> Refusal {
    let locked = match obstacle {
        Obstacle::Held(way) => Locked::by_holding(app, &way.holding),
        Obstacle::Grace { owner, expired_at, grace_until } => {
            in_grace(app, &owner, expired_at, grace_until)
        }
        other => return other.into(),
    };
    Refusal::Locked(Box::new(locked))
}

fn in_grace(app: &App, owner: &Owner, expired_at: Timestamp, grace_until: Timestamp) -> Locked {
    let owner = (&*owner.instance, owner::vouched(owner));
    let mut locked = Locked::new(app, owner, expired_at, Some(grace_until));
    locked.message = "This file is reserved for the session that edited it last";
    locked
}

/// Reads the durable state of a lock.
pub(super) async fn look(
    files: &Files,
    caller: &Caller,
    key: LockKey,
) -> Result<LockView, Refusal> {
    let read = caller.permit(ReadLock { key, n_queue_max: 0 })?;
    Ok(*files.app.engine.ask(read).await??)
}

/// Returns the holder of a lock, if there is one.
pub(super) fn holder(app: &App, view: &LockView) -> Option<Locked> {
    view.holders.first().map(|lease| Locked::by(app, lease))
}
