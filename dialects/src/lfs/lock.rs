//! Endpoints that lock and unlock a file.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use leasehold_auth::{ANONYMOUS, Caller, Right};
use leasehold_core::{
    Acquire, LeaseNumber, LeaseRecord, Phase, Proof, Rejection, Release, Revoke, Secret, Target,
};
use leasehold_engine::{ReadLease, Take};

use super::error::Refusal;
use super::repository::Repository;
use super::wire::{self, Held, LockAnswer, LockRequest, UnlockRequest};
use super::{Answer, Asked, Lfs};
use crate::counted::Counted;
use crate::http::request::{self, UnlessOwn};
use crate::operator;
use crate::{ALL, Dialect};

/// Acquires the lock of a file. The lock does not expire.
pub(super) async fn create(lfs: &Lfs, asked: Asked) -> Answer {
    let app = &lfs.app;
    let (owner, Counted(peer)) = (asked.owner(), Counted::of(app, &asked.parts));
    let (repository, caller) = (asked.repository.clone(), asked.caller.clone());
    let request: LockRequest = asked.json(lfs).await?;
    let path = &*request.path;
    let lock = repository.lock(app, path)?;
    let take = Take(Acquire {
        metadata: Some(wire::note(repository.name(), path, request.r#ref).into()),
        peer,
        ..Acquire::new(
            lock,
            owner.clone(),
            Dialect::Lfs.number(),
            Secret(leasehold_base::random::bytes()),
        )
    });
    app.limits.check_acquire(&take.0)?;
    let taken = app.engine.ask(caller.permit(take)?).await?;
    // Clients without a name cannot be distinguished, so a lock is never shown as their own.
    let is_own = |held: &Held| held.is_of(&owner) && *owner.instance != *ANONYMOUS;
    let granted = taken.map_err(|rejection| refused(app, path, rejection, is_own))?;
    let lock = Held::from(&granted.grant.lease).shown(app, path);
    let answer = wire::answer(StatusCode::CREATED, LockAnswer { lock });
    Ok(request::Answer::new(answer, granted.undelivered).into_response())
}

/// Returns the error for a lock that cannot be acquired. git-lfs shows only the message, so the message names the
/// holder.
fn refused(
    app: &crate::app::App,
    path: &str,
    rejection: Rejection,
    is_own: impl FnOnce(&Held) -> bool,
) -> Refusal {
    let holding = match rejection {
        Rejection::Held(holding) | Rejection::QueueFull { holding, .. } => holding,
        Rejection::Grace { owner, .. } => {
            let who = &owner.instance;
            let why = format!("{path} is reserved for its last holder, {who}");
            return Refusal::locked(why, None);
        }
        other => return other.into(),
    };
    let Some(held) = Held::of(*holding) else {
        return Refusal::locked(format!("other clients wait for the lock of {path}"), None);
    };
    let why = match is_own(&held) {
        true => {
            format!("{path} is already locked by you ({}) since {}", held.who(), held.since(app))
        }
        false => format!("{path} is locked by {}", held.in_words(app)),
    };
    Refusal::locked(why, Some(held.shown(app, path)))
}

/// Releases a lock, or revokes it if the request is forced.
pub(super) async fn unlock(lfs: &Lfs, asked: Asked, id: &str) -> Answer {
    let app = &lfs.app;
    let owner = asked.owner();
    let (repository, caller) = (asked.repository.clone(), asked.caller.clone());
    let unless_own = UnlessOwn::of(&asked.parts);
    let UnlockRequest { force } = asked.json(lfs).await?;
    let lease = find(lfs, &caller, &repository, id).await?.ok_or_else(|| Refusal::no_lock(id))?;
    let held = Held::from(&lease);
    let path = repository.path(&lease.lock).unwrap_or_default();
    let (number, dialect) = (lease.number, lease.dialect);
    // A caller that can lock files can end its own locks. To end those of others, it needs the right to revoke.
    let is_own = caller.is(&lease.owner.principal);
    if let Some(refused) = unless_own.filter(is_own) {
        return Ok(refused);
    }
    let right = if is_own { Right::FilesWrite } else { Right::Revoke };
    let done = if held.is_of(&owner) {
        let proof = Proof::Number { number, principal: None };
        let release = caller.own(Release { proof, dialect, request_id: None });
        app.engine.ask(release).await?.map(drop)
    } else if force {
        let proof = Proof::Number { number, principal: None };
        let reason = format!("git lfs unlock --force by {}", owner.instance);
        let target = Target::Lease(proof, dialect);
        let revoke = Revoke { target, reason: cut(&reason, app.limits.reason_bytes_max).into() };
        let done = app.engine.ask(caller.permit_on(right, [&lease.lock], revoke)?).await?;
        // Without authentication, all clients are the same principal.
        if done.is_ok() && (!is_own || !caller.is_asked()) {
            operator::note_revoked(app, &caller, &lease.lock, &reason);
        }
        done.map(drop)
    } else {
        let remedy = match caller.check(right, &lease.lock) {
            Ok(()) => "--force revokes it",
            Err(_) => "only they, or a user with the right revoke, can unlock it",
        };
        let why = format!("{path} is locked by {}; {remedy}", held.in_words(app));
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    };
    match done {
        Ok(()) => {
            let lock = held.shown(app, path);
            Ok(wire::answer(StatusCode::OK, LockAnswer { lock }))
        }
        Err(Rejection::NoSuchLease | Rejection::Ended(_)) => Err(Refusal::no_lock(id)),
        Err(rejection) => Err(rejection.into()),
    }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Returns a lock of this repository by its id, whichever dialect it was acquired through.
pub(super) async fn find(
    lfs: &Lfs,
    caller: &Caller,
    repository: &Repository,
    id: &str,
) -> Result<Option<LeaseRecord>, Refusal> {
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    let Some(number) = id.parse().ok().filter(|_| is_number).map(LeaseNumber) else {
        return Ok(None);
    };
    // Nearly all locks were acquired through this dialect, so it is tried first.
    let others = ALL.iter().copied().filter(|dialect| *dialect != Dialect::Lfs);
    for dialect in [Dialect::Lfs].into_iter().chain(others) {
        let read = caller.own(ReadLease::new(number, dialect.number()));
        let Some(lease) = lfs.app.engine.ask(read).await? else { continue };
        let is_here = repository.path(&lease.lock).is_some()
            && !Held::from(&*lease).is_elsewhere(repository.name());
        return Ok(Some(*lease).filter(|lease| is_here && lease.phase == Phase::Active));
    }
    Ok(None)
}
