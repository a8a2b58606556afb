//! A lock on a path: several leases that are taken together and are one to whoever has them.

use std::sync::Arc;

use leasehold_core::{
    Acquire, AcquireAll, Extend, Group, Holding, LeaseId, LeaseNumber, LeaseView, LockKey, Mode,
    OF_PATHS, Other, Owner, Peer, Proof, Rejection, ReleaseAll, RenewAll, Secret, SessionDigest,
    Span, Timestamp,
};

use crate::app::App;
use crate::auth::{Caller, Denied, Permitted, Right};
use crate::content::{Extent, Part, is_tree};
use crate::dialect::{Dialect, rejection};
use crate::engine::{self, GrantedAll, LeaveOut, ReadLease, ReadLock, TakeAll, Undelivered};

/// A lock must last at least this long from right before something is published.
const PUBLISH_TIME: Span = Span::from_secs(30);

/// Leases that were granted together, by one secret.
#[derive(Clone, Debug)]
pub(super) struct Grip {
    /// What its holder must have a right to.
    of: Vec<LockKey>,
    pub(super) lease: LeaseView,
}

/// For whom a lock is taken, and for how long.
pub(super) struct Terms {
    pub(super) owner: Owner,
    pub(super) dialect: Dialect,
    pub(super) ttl: Span,
    pub(super) session: Option<SessionDigest>,
    pub(super) metadata: Option<Arc<[u8]>>,
    pub(super) secret: Secret,
    pub(super) peer: Option<Peer>,
}

/// Why a lock cannot be had.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// Somebody has a lock that this one may not stand beside.
    Held(Box<InTheWay>),
    /// The lock of this name is kept for its last owner.
    Grace { owner: Owner, expired_at: Timestamp, grace_until: Timestamp },
    /// The maximum number of clients already share the lock on this file or folder.
    Full { path: String, allowed: u64 },
    /// There are more folders around it than one lock can have.
    TooDeep { n: usize, allowed: usize },
    /// Anything else.
    Rejected(Rejection),
    /// They may not.
    Denied(Denied),
    /// Nobody could ask.
    Engine(engine::Error),
}

/// A lock that keeps another from being taken.
#[derive(Debug)]
pub(super) struct InTheWay {
    /// The lock as it was asked for by whoever has it: the name of a file or folder.
    pub(super) name: Box<str>,
    pub(super) holding: Holding,
}

impl Obstacle {
    /// What is in the way, in general.
    pub(super) fn in_words(&self) -> String {
        match self {
            Obstacle::Held(_) => "a lock is held by another owner".into(),
            Obstacle::Grace { .. } => "the lock is reserved for its last owner".into(),
            Obstacle::Full { path, allowed } => format!(
                "too many shared locks are held on {path:?}: {allowed} allowed at once (holders-max); try again when \
                 others have ended"
            ),
            Obstacle::TooDeep { n, allowed } => format!(
                "the path is too deep: its lock would take {n} locks together, one for each folder around it, and \
                 {allowed} are allowed (group-max)"
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
    /// Takes all parts of an extent, or none. The guard is to go with the answer, or to be put at rest.
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
        // One secret for all of them: whoever knows one knows where the others are.
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

    /// The lock that is made up of this lease and those it was granted with.
    pub(super) fn of(of: Vec<LockKey>, lease: LeaseView) -> Self {
        Self { of, lease }
    }

    /// Makes sure that all of several locks last long enough to publish something. Until when they do.
    pub(super) async fn secure(
        app: &App,
        caller: &Caller,
        grips: &[&Self],
    ) -> Result<Result<Option<Timestamp>, Rejection>, Obstacle> {
        Self::renew(app, caller, grips, Extend::AtLeast(PUBLISH_TIME)).await
    }

    /// Moves the deadlines of several locks, or of none. Until when the first of them to end lasts.
    pub(super) async fn renew(
        app: &App,
        caller: &Caller,
        grips: &[&Self],
        extend: Extend,
    ) -> Result<Result<Option<Timestamp>, Rejection>, Obstacle> {
        // What was let in a while ago need not be any more.
        let caller = caller.still(&app.engine)?;
        let mut until = None;
        // Leases of one dialect only can be renewed together; those of a session may be beside those of a write.
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

    /// Gives it back. What is over already stays so.
    pub(super) async fn release(&self, app: &App, caller: &Caller) -> Result<(), engine::Error> {
        let _ = app.engine.ask(caller.own(self.to_release())).await?;
        Ok(())
    }

    /// Gives it back whenever there is time to: for whoever cannot wait.
    pub(super) fn drop_later(&self, app: &App, caller: &Caller) {
        let call = app.engine.ask(caller.own(self.to_release()));
        // Without a runtime the server is ending, and the lock expires.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(call);
        }
    }

    fn to_release(&self) -> ReleaseAll {
        ReleaseAll { proofs: self.proofs().collect(), dialect: self.lease.dialect }
    }

    /// Each lease by its number and the secret they share: whatever else its owner has by now is not meant.
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

/// When somebody's lease on a file or folder was taken away, what was granted with it is of no use any more.
pub(crate) async fn loosen(app: &App, lock: &LockKey, caller: &Caller, ended: &[LeaseView]) {
    for lease in ended.iter().filter(|lease| OF_PATHS.contains(&lease.dialect)) {
        let grip = Grip::of(Vec::new(), lease.clone());
        let Ok(release) = caller.permit_on(Right::Revoke, [lock], grip.to_release()) else {
            continue;
        };
        // What cannot be given back now expires.
        let _ = app.engine.ask(release).await;
    }
}

/// The path that is kept with a lease, if one is.
pub(super) fn path_of(lease: &LeaseView) -> Option<String> {
    let kept = lease.metadata.as_deref()?;
    if lease.dialect == Dialect::Dav.number() {
        let note: serde_json::Value = serde_json::from_slice(kept).ok()?;
        return note["path"].as_str().map(Into::into);
    }
    std::str::from_utf8(kept).ok().map(Into::into)
}

// The core knows the dialects that lock paths by their numbers.
const _: () = assert!(OF_PATHS.len() == 2);
const _: () = assert!(OF_PATHS[0].0 == Dialect::Files as u8 && OF_PATHS[1].0 == Dialect::Dav as u8);

/// What a list of the locks of a namespace leaves out: nobody locks a tree for its own sake.
pub(super) fn leave_out(app: &App, namespace: &str) -> Option<LeaveOut> {
    let is_of_paths = *app.dialect.files.namespace == *namespace;
    is_of_paths.then_some(LeaveOut { is_name: is_tree, dialects: OF_PATHS })
}

/// Can this lock be taken away by its name? What locks inside a folder share is nobody's lock, and no list shows it.
pub(crate) fn check_revocable(app: &App, lock: &LockKey) -> Result<(), String> {
    let Some(LeaveOut { is_name, .. }) = leave_out(app, &lock.namespace) else { return Ok(()) };
    if !is_name(&lock.name) {
        return Ok(());
    }
    Err(format!(
        "{:?} is the lock of no file or folder: all locks inside the folder have a share of it. Name the file or \
         folder itself, without a slash at the end; nothing was revoked",
        lock.name
    ))
}

/// A lock, for somebody who may see these.
pub(super) async fn look(
    app: &App,
    caller: &Caller,
    of: &[LockKey],
    key: LockKey,
) -> Result<leasehold_core::LockView, Obstacle> {
    let read = caller.permit_on(Right::FilesRead, of, ReadLock { key, n_queue_max: 0 })?;
    match app.engine.ask(read).await? {
        Ok(view) => Ok(*view),
        Err(rejection) => Err(Obstacle::Rejected(rejection)),
    }
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

/// Is there only no room for one more beside those who would not mind?
async fn full(
    app: &App,
    caller: &Caller,
    of: &[LockKey],
    Part { key, mode, .. }: &Part,
) -> Option<Obstacle> {
    // Shares of a folder are not limited.
    if *mode == Mode::Exclusive || is_tree(&key.name) {
        return None;
    }
    let view = look(app, caller, of, key.clone()).await.ok()?;
    let minds = view.holders.iter().any(|holder| holder.mode != *mode);
    let allowed = app.limits.holders_max;
    let is_full = !minds && view.n_holders >= allowed as usize;
    is_full.then(|| Obstacle::Full { path: key.name.to_string(), allowed: allowed.into() })
}

/// The lock that whoever holds something asked for, if it is one of several they were granted.
async fn name_of(app: &App, caller: &Caller, holding: &Holding) -> Option<Box<str>> {
    let (dialect, number) = holding.lease?;
    let first: LeaseNumber = holding.group.map_or(number, |group| group.first);
    let read: Permitted<ReadLease> =
        caller.permit_on(Right::FilesRead, [], ReadLease::new(first, dialect)).ok()?;
    Some(app.engine.ask(read).await.ok()??.lock.name)
}
