//! The lock on a file while it is being written.

use leasehold_core::{
    Acquire, Extend, Grant, GrantKind, LeaseView, LockKey, LockView, Owner, Proof, Rejection,
    Release, Renew, Secret, Span, Timestamp,
};

use super::Files;
use super::error::Refusal;
use super::session::Session;
use super::wire::Locked;
use crate::app::App;
use crate::auth::{Caller, Permitted, Right};
use crate::content::{FilePath, ToWrite};
use crate::dialect::{Dialect, owner};
use crate::engine::{Granted, ReadLock, Take};

/// A lock must last at least this long from right before the content is published.
const PUBLISH_TIME: Span = Span::from_secs(30);

/// A session's lock on a file. Dropped, it is given back if this write took it.
pub(super) struct Hold {
    files: Files,
    lock: LockKey,
    lease: LeaseView,
    caller: Caller,
    /// This write took it, so this write gives it back however it ends.
    is_ours: bool,
}

impl Hold {
    /// Takes the lock, or goes on with the one the session has.
    pub(super) async fn take(
        files: &Files,
        session: &Session,
        path: &Permitted<ToWrite>,
    ) -> Result<Self, Refusal> {
        // From here on it is the write's, which gives it back itself: it may have been renewed by then.
        let Grant { lease, kind, .. } = *acquire(files, session, path).await?.deliver();
        let is_ours = kind == GrantKind::New;
        let (lock, caller) = (path.lock(&files.app), session.caller.clone());
        Ok(Self { files: files.clone(), lock, lease, caller, is_ours })
    }

    /// Makes sure that the lock lasts long enough to publish what was written. If it was lost meanwhile,
    /// somebody else may have written, and this write must not.
    pub(super) async fn secure(&mut self) -> Result<(), Refusal> {
        let renew = Renew {
            proof: self.proof(),
            dialect: Dialect::Files.number(),
            extend: Extend::AtLeast(PUBLISH_TIME),
            request_id: None,
        };
        // The upload may have taken long: whoever was let in then need not be any more.
        let caller = self.caller.still(&self.files.app.engine)?;
        let renew = caller.permit_on(Right::FilesWrite, [&self.lock], renew)?;
        match self.files.app.engine.ask(renew).await? {
            Ok(lease) => {
                self.lease = *lease;
                Ok(())
            }
            Err(_) => Err(self.lost().await),
        }
    }

    /// Tells at any moment whether it is certain that nobody else has the lock: whoever asks may have slept.
    pub(super) fn watch(&self) -> impl Fn() -> bool + Send + 'static {
        let (engine, deadline) = (self.files.app.engine.clone(), self.lease.deadline);
        move || deadline.is_none_or(|deadline| engine.now() < deadline)
    }

    /// The lock was lost; to whom, if to anybody.
    pub(super) async fn lost(&mut self) -> Refusal {
        self.is_ours = false;
        let app = &self.files.app;
        match look(&self.files, &self.caller, self.lock.clone()).await {
            Ok(view) => match holder(app, &view) {
                Some(locked) => Refusal::Locked(Box::new(locked)),
                None => {
                    let mut locked = Locked::by(app, &self.lease);
                    locked.message = "The lock was lost before the write was complete";
                    Refusal::Locked(Box::new(locked))
                }
            },
            Err(refusal) => refusal,
        }
    }

    /// The write is done, and so is the lock, also one that was taken before.
    pub(super) async fn give_back(mut self) -> Result<(), Refusal> {
        self.is_ours = false;
        // If it was refused: whoever took the lock away meanwhile was later than the write.
        let _ = self.files.app.engine.ask(self.caller.own(self.release())).await?;
        Ok(())
    }

    /// The lock stays with the session if it was taken before this write.
    pub(super) async fn leave(self) -> Result<(), Refusal> {
        if self.is_ours { self.give_back().await } else { Ok(()) }
    }

    fn release(&self) -> Release {
        let dialect = Dialect::Files.number();
        Release { proof: self.proof(), dialect, request_id: None }
    }

    /// This very lease: the session may have another one on this file by now.
    fn proof(&self) -> Proof {
        let LeaseView { id, owner, token, .. } = &self.lease;
        Proof::Id { id: *id, owner: owner.clone(), token: Some(*token), lock: None }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        let call = self.files.app.engine.ask(self.caller.own(self.release()));
        // Without a runtime the server is ending, and the lock expires.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(call);
        }
    }
}

/// Takes a file's lock for a session, or renews it if the session has it.
pub(super) async fn acquire(
    files: &Files,
    session: &Session,
    path: &FilePath,
) -> Result<Granted, Refusal> {
    let app = &files.app;
    let lock = path.lock(app);
    // The lock of a long path goes by another name; the path itself is kept with the lease.
    let metadata = (*lock.name != *path.as_str()).then(|| path.as_str().as_bytes().into());
    let secret = Secret(crate::random::bytes());
    let take = Take(Acquire {
        ttl: Some(app.dialect.files.lock_ttl),
        sticky: true,
        session: Some(session.digest),
        metadata,
        ..Acquire::new(lock, session.owner(), Dialect::Files.number(), secret)
    });
    let taken = app.engine.ask(session.caller.permit(take)?).await?;
    taken.map_err(|rejection| refused(app, rejection))
}

fn refused(app: &App, rejection: Rejection) -> Refusal {
    let locked = match rejection {
        Rejection::Held(holding) => Locked::by_holding(app, &holding),
        Rejection::Grace { owner, expired_at, grace_until } => {
            in_grace(app, &owner, expired_at, grace_until)
        }
        other => return other.into(),
    };
    Refusal::Locked(Box::new(locked))
}

fn in_grace(app: &App, owner: &Owner, expired_at: Timestamp, grace_until: Timestamp) -> Locked {
    let owner = (&*owner.instance, owner::vouched(owner));
    let mut locked = Locked::new(app, owner, expired_at, Some(grace_until));
    locked.message = "This file is kept for the session that edited it last";
    locked
}

/// A lock as it durably is.
pub(super) async fn look(
    files: &Files,
    caller: &Caller,
    key: LockKey,
) -> Result<LockView, Refusal> {
    let read = caller.permit(ReadLock { key, n_queue_max: 0 })?;
    Ok(*files.app.engine.ask(read).await??)
}

/// Who is in the way, if anybody.
pub(super) fn holder(app: &App, view: &LockView) -> Option<Locked> {
    view.holders.first().map(|lease| Locked::by(app, lease))
}
