//! Locks on paths: several leases that are granted together and that their holder uses as one lock.

use std::sync::Arc;

use leasehold_auth::{Caller, Denied, Permitted, Right};
use leasehold_core::{
    Acquire, AcquireAll, Extend, Group, Holding, LeaseId, LeaseNumber, LeaseView, LockKey,
    LockView, Mode, OF_PATHS, Other, Owner, Peer, Proof, Rejection, ReleaseAll, RenewAll, Secret,
    SessionDigest, Span, Timestamp,
};
use leasehold_engine::{
    self as engine, GrantedAll, LeaveOut, ReadLease, ReadLock, ReadLocks, TakeAll, Undelivered,
};

use crate::app::App;
use crate::content::{Extent, Part, is_tree};
use crate::{Dialect, rejection};

/// Minimum time that a lock must still last when a change is about to be published.
const PUBLISH_TIME: Span = Span::from_secs(30);

/// Leases that were granted together and share one secret.
#[derive(Clone, Debug)]
pub(super) struct Grip {
    /// The locks to which the holder must have a right.
    of: Vec<LockKey>,
    pub(super) lease: LeaseView,
}

/// The owner of a lock and the terms of its lease.
pub(super) struct Terms {
    pub(super) owner: Owner,
    pub(super) dialect: Dialect,
    pub(super) ttl: Span,
    pub(super) session: Option<SessionDigest>,
    pub(super) metadata: Option<Arc<[u8]>>,
    pub(super) secret: Secret,
    pub(super) peer: Option<Peer>,
}

/// The reason why a lock cannot be acquired.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// A conflicting lock is held.
    Held(Box<InTheWay>),
    /// The lock is reserved for its last owner.
    Grace { owner: Owner, expired_at: Timestamp, grace_until: Timestamp },
    /// The maximum number of clients already share the lock on this file or folder.
    Full { path: String, allowed: u64 },
    /// The path has more parent folders than one lock can cover.
    TooDeep { n: usize, allowed: usize },
    /// Anything else.
    Rejected(Rejection),
    /// The caller lacks the right to do this.
    Denied(Denied),
    /// The engine could not answer.
    Engine(engine::Error),
}

/// A lock that prevents another from being acquired.
#[derive(Debug)]
pub(super) struct InTheWay {
    /// The file or folder that the holder of the lock named when acquiring it.
    pub(super) name: Box<str>,
    pub(super) holding: Holding,
}

impl Obstacle {
    /// Describes the obstacle in general terms.
    pub(super) fn in_words(&self) -> String {
        match self {
            Obstacle::Held(_) => "a lock is held by another owner".into(),
            Obstacle::Grace { .. } => "the lock is reserved for its last owner".into(),
            Obstacle::Full { path, allowed } => format!(
                "too many shared locks are held on {path:?}; limit: {allowed} (holders-max); try again later"
            ),
            Obstacle::TooDeep { n, allowed } => format!(
                "the path is too deep: its lock would need {n} locks, one for each parent folder; limit: {allowed} \
                 (group-max)"
            ),
            Obstacle::Rejected(rejection) => rejection::in_words(rejection).into(),
            Obstacle::Denied(denied) => denied.to_string(),
            Obstacle::Engine(error) => format!("{error:?}"),
        }
    }
}

impl From<Denied> for Obstacle {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<engine::Error> for Obstacle {
    fn from(error: engine::Error) -> Self {
        Self::Engine(error)
    }
}

impl Grip {
    /// Acquires all parts of an extent, or none. The caller must send the guard along with the response, or disarm
    /// it.
    pub(super) async fn take(
        app: &App,
        caller: &Caller,
        of: Vec<LockKey>,
        extent: &Extent,
        terms: Terms,
    ) -> Result<(Self, Option<Undelivered>), Obstacle> {
        extent.check_size().map_err(|(n, allowed)| Obstacle::TooDeep { n, allowed })?;
        let Some((main, others)) = extent.parts().split_first() else {
            return Err(Obstacle::Rejected(Rejection::NoSuchLease));
        };
        let Terms { owner, dialect, ttl, session, metadata, secret, peer } = terms;
        let first = Acquire {
            mode: main.mode,
            ttl: Some(ttl),
            session,
            metadata,
            peer,
            ..Acquire::new(main.key.clone(), owner, dialect.number(), secret)
        };
        // All leases share one secret: the number and the secret of one of them give access to the others.
        let other = |part: &Part| Other { name: part.key.name.clone(), mode: part.mode, secret };
        let others = others.iter().map(other).collect();
        let acquire = AcquireAll { first, others };
        let take = caller.permit(TakeAll { of: of.clone(), acquire })?;
        match app.engine.ask(take).await? {
            Ok(GrantedAll { grants, undelivered }) => match grants.into_iter().next() {
                Some(grant) => Ok((Self::of(of, grant.lease), undelivered)),
                None => Err(Obstacle::Engine(engine::Error::Unknown)),
            },
            Err(rejection) => Err(obstacle(app, caller, &of, extent, rejection).await),
        }
    }

    /// Returns the lock that consists of this lease and those granted with it.
    pub(super) fn of(of: Vec<LockKey>, lease: LeaseView) -> Self {
        Self { of, lease }
    }

    /// Makes sure that several locks all last long enough to publish a change. Returns the earliest deadline.
    pub(super) async fn secure(
        app: &App,
        caller: &Caller,
        grips: &[&Self],
    ) -> Result<Result<Option<Timestamp>, Rejection>, Obstacle> {
        Self::renew(app, caller, grips, Extend::AtLeast(PUBLISH_TIME)).await
    }

    /// Moves the deadlines of several locks, or of none. Returns the earliest deadline.
    pub(super) async fn renew(
        app: &App,
        caller: &Caller,
        grips: &[&Self],
        extend: Extend,
    ) -> Result<Result<Option<Timestamp>, Rejection>, Obstacle> {
        // The caller's rights might have changed since the request was admitted.
        let caller = caller.still(app.engine.clock())?;
        let mut until = None;
        // One call can renew leases of one dialect only, and here leases of a session can occur next to those of a
        // write.
        for grip in grips {
            let renew =
                RenewAll { proofs: grip.proofs().collect(), dialect: grip.lease.dialect, extend };
            let renew = caller.permit_on(Right::FilesWrite, &grip.of, renew)?;
            match app.engine.ask(renew).await? {
                Ok(leases) => {
                    let soonest = leases.iter().filter_map(|lease| lease.deadline).min();
                    until = [until, soonest].into_iter().flatten().min();
                }
                Err(rejection) => return Ok(Err(rejection)),
            }
        }
        Ok(Ok(until))
    }

    /// Releases the lock. It is not an error if the lease has already ended.
    pub(super) async fn release(&self, app: &App, caller: &Caller) -> Result<(), engine::Error> {
        let _ = app.engine.ask(caller.own(self.to_release())).await?;
        Ok(())
    }

    /// Releases the lock in the background, for callers that cannot wait.
    pub(super) fn drop_later(&self, app: &App, caller: &Caller) {
        let call = app.engine.ask(caller.own(self.to_release()));
        // Without a runtime the server is stopping; the lock then expires.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(call);
        }
    }

    fn to_release(&self) -> ReleaseAll {
        ReleaseAll { proofs: self.proofs().collect(), dialect: self.lease.dialect }
    }

    /// Returns a proof for each lease, from its number and the shared secret. Other leases of the same owner are not
    /// included.
    fn proofs(&self) -> impl Iterator<Item = Proof> + '_ {
        let LeaseView { id, owner, group, .. } = &self.lease;
        let alone = Group { first: id.number, size: 1 };
        group.unwrap_or(alone).numbers().map(|number| Proof::Id {
            id: LeaseId { number, secret: id.secret },
            owner: owner.clone(),
            token: None,
            lock: None,
        })
    }
}

/// After a lease on a file or folder was revoked, releases the leases that were granted with it, which have no use
/// without it.
pub(crate) async fn loosen(app: &App, lock: &LockKey, caller: &Caller, ended: &[LeaseView]) {
    for lease in ended.iter().filter(|lease| OF_PATHS.contains(&lease.dialect)) {
        let grip = Grip::of(Vec::new(), lease.clone());
        let Ok(release) = caller.permit_on(Right::Revoke, [lock], grip.to_release()) else {
            continue;
        };
        // A lease that cannot be released now expires later.
        let _ = app.engine.ask(release).await;
    }
}

/// Returns the path that is stored with a lease, if there is one.
pub(super) fn path_of(lease: &LeaseView) -> Option<String> {
    let kept = lease.metadata.as_deref()?;
    if lease.dialect == Dialect::Dav.number() {
        let note: serde_json::Value = serde_json::from_slice(kept).ok()?;
        return note["path"].as_str().map(Into::into);
    }
    std::str::from_utf8(kept).ok().map(Into::into)
}

// The core refers by number to the dialects that lock paths.
const _: () = assert!(OF_PATHS.len() == 2);
const _: () = assert!(OF_PATHS[0].0 == Dialect::Files as u8 && OF_PATHS[1].0 == Dialect::Dav as u8);

/// Returns the locks that lists of a namespace omit: the internal locks on folder trees, which clients never name.
pub(super) fn leave_out(app: &App, namespace: &str) -> Option<LeaveOut> {
    let is_of_paths = *app.dialect.files.namespace == *namespace;
    is_of_paths.then_some(LeaveOut { is_name: is_tree, dialects: OF_PATHS })
}

/// Checks that a lock can be revoked by its name. The internal lock on a folder tree cannot: it is shared by all
/// locks inside the folder, and no list shows it.
pub fn check_revocable(app: &App, lock: &LockKey) -> Result<(), String> {
    let Some(LeaveOut { is_name, .. }) = leave_out(app, &lock.namespace) else { return Ok(()) };
    if !is_name(&lock.name) {
        return Ok(());
    }
    Err(format!(
        "{:?} is not the lock of a file or folder: all locks inside the folder share it. Name the file or folder \
         itself, without a slash at the end; nothing was revoked",
        lock.name
    ))
}

/// Reads a lock, if the caller is allowed to see the locks in `of`.
async fn look(
    app: &App,
    caller: &Caller,
    of: &[LockKey],
    key: LockKey,
) -> Result<LockView, Obstacle> {
    let read = caller.permit_on(Right::FilesRead, of, ReadLock { key, n_queue_max: 0 })?;
    app.engine.ask(read).await?.map(|view| *view).map_err(Obstacle::Rejected)
}

/// Reads several locks in as few engine rounds as possible, if the caller is allowed to see the locks in `of`.
pub(super) async fn look_at_all(
    app: &App,
    caller: &Caller,
    of: &[LockKey],
    read: ReadLocks,
) -> Result<Vec<LockView>, Obstacle> {
    read_all(app, read, |read| caller.permit_on(Right::FilesRead, of, read)).await
}

/// Reads several locks, for a record in the audit file. The client does not see the result.
pub(super) async fn audit_all(
    app: &App,
    caller: &Caller,
    read: ReadLocks,
) -> Result<Vec<LockView>, Obstacle> {
    read_all(app, read, |read| Ok(caller.audit_locks(read))).await
}

/// One round returns at most one page of locks, so the rest is read in further rounds.
async fn read_all(
    app: &App,
    mut read: ReadLocks,
    permit: impl Fn(ReadLocks) -> Result<Permitted<ReadLocks>, Denied>,
) -> Result<Vec<LockView>, Obstacle> {
    let mut views = Vec::with_capacity(read.keys.len());
    while !read.keys.is_empty() {
        let permitted = permit(read.clone())?;
        let found = app.engine.ask(permitted).await?.map_err(Obstacle::Rejected)?;
        read.keys.drain(..found.len());
        views.extend(found);
    }
    Ok(views)
}

async fn obstacle(
    app: &App,
    caller: &Caller,
    of: &[LockKey],
    extent: &Extent,
    rejection: Rejection,
) -> Obstacle {
    let (n, why) = match rejection {
        Rejection::Member { n, why } => (n, *why),
        why => (0, why),
    };
    let Some(part) = extent.parts().get(n) else { return Obstacle::Rejected(why) };
    match why {
        Rejection::Held(holding) => {
            if let Some(full) = full(app, caller, of, part).await {
                return full;
            }
            let name = match name_of(app, caller, &holding).await {
                Some(name) => name,
                None => part.at.as_str().into(),
            };
            Obstacle::Held(Box::new(InTheWay { name, holding: *holding }))
        }
        Rejection::Grace { owner, expired_at, grace_until } => {
            Obstacle::Grace { owner, expired_at, grace_until }
        }
        other => Obstacle::Rejected(other),
    }
}

/// Returns [`Obstacle::Full`] if the lock is refused only because the maximum number of holders already share it.
async fn full(
    app: &App,
    caller: &Caller,
    of: &[LockKey],
    Part { key, mode, .. }: &Part,
) -> Option<Obstacle> {
    // The number of shares in a folder tree is not limited.
    if *mode == Mode::Exclusive || is_tree(&key.name) {
        return None;
    }
    let view = look(app, caller, of, key.clone()).await.ok()?;
    let minds = view.holders.iter().any(|holder| holder.mode != *mode);
    let allowed = app.limits.holders_max;
    let is_full = !minds && view.n_holders >= allowed as usize;
    is_full.then(|| Obstacle::Full { path: key.name.to_string(), allowed: allowed.into() })
}

/// Returns the lock that the holder named when it was granted several at once.
async fn name_of(app: &App, caller: &Caller, holding: &Holding) -> Option<Box<str>> {
    let (dialect, number) = holding.lease?;
    let first: LeaseNumber = holding.group.map_or(number, |group| group.first);
    let read: Permitted<ReadLease> =
        caller.permit_on(Right::FilesRead, [], ReadLease::new(first, dialect)).ok()?;
    Some(app.engine.ask(read).await.ok()??.lock.name)
}
