//! One simulated client: acquires a lock, holds it, writes and releases it. Some turns simulate a client that is paused
//! for too long.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leasehold::api::{AcquireRequest, Acquired, ReleaseRequest, RenewRequest};
use leasehold::{Error, LockGuard, Moment};

use super::history::Breach;
use super::plan::Turn;
use super::world::World;
use crate::duration::DurationArg;
use crate::proof::request_id;

/// The pause after an error, so that the clients do not overload an unavailable server.
const BREATH: Duration = Duration::from_millis(100);
/// The safety margin for clock drift, as in the SDK: one part in this many.
const DRIFT: u32 = 100;
/// How long [`overtake`] waits for the lock, in addition to twice the TTL.
const OVERTAKE_WAIT: Duration = Duration::from_secs(5);

/// Runs turns until the end of the run.
pub(super) async fn live(world: Arc<World>, number: u32) {
    let mut random = Rng::new();
    let owner = format!("{}-{number}", world.client.owner());
    while !world.left().is_zero() {
        let lock = random.usize(..world.names.len());
        let done = match world.plan.turn(&mut random) {
            Turn::Work(hold) => work(&world, &owner, lock, hold).await,
            Turn::Pause => pause(&world, &owner, lock).await,
        };
        let pause = match done {
            Ok(()) => world.plan.jitter(&mut random),
            // All waits end when the run ends.
            Err(Error::NotAcquired(_)) if world.left() < BREATH => {
                world.tally.timeouts.add();
                Duration::ZERO
            }
            Err(error) => {
                world.tally.error(&error);
                BREATH
            }
        };
        tokio::time::sleep(pause.min(world.left())).await;
    }
}

/// Acquires a lock whose former holder is paused, and writes, so that the paused client continues.
pub(super) async fn overtake(world: &World, lock: usize) {
    let wait = world.plan.ttl.0 * 2 + OVERTAKE_WAIT;
    let owner = format!("{}-last", world.client.owner());
    let done = match granted(world, &owner, lock, wait).await {
        Ok(guard) => tend(world, lock, guard, Duration::ZERO).await,
        Err(error) => Err(error),
    };
    if let Err(error) = done {
        world.tally.error(&error);
    }
}

/// Runs a normal turn: acquires, holds, writes and releases.
async fn work(world: &World, owner: &str, lock: usize, hold: Duration) -> Result<(), Error> {
    let guard = tokio::select! {
        guard = granted(world, owner, lock, world.left()) => guard?,
        () = world.stopped() => return Ok(()),
    };
    tend(world, lock, guard, hold).await
}

async fn granted(
    world: &World,
    owner: &str,
    lock: usize,
    wait: Duration,
) -> Result<LockGuard, Error> {
    let asked_at = world.now();
    let request = world.client.lock(&world.names[lock]).owner(owner);
    let guard = request.ttl(world.plan.ttl.0).wait(wait).acquire().await?;
    world.tally.acquire.record(world.now().since(asked_at));
    Ok(guard)
}

/// Holds a lock, writes, and releases the lock.
async fn tend(world: &World, lock: usize, guard: LockGuard, hold: Duration) -> Result<(), Error> {
    let token = guard.fencing_token();
    if !world.begin(lock, token, guard.end()) {
        world.tally.lost.add();
        return Ok(());
    }
    held(world, &guard, hold).await;
    if guard.is_held() {
        write(world, lock, token, || guard.end());
    }
    let ceased_at = world.now();
    world.cease(lock, token, guard.end().min(ceased_at));
    match guard.release().await {
        Ok(()) => world.tally.release.record(world.now().since(ceased_at)),
        Err(Error::NotReleased(_)) => world.tally.lost.add(),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Waits while the lock is held, until `hold` is over, the lock is lost or the run ends.
async fn held(world: &World, guard: &LockGuard, hold: Duration) {
    let over = tokio::time::sleep(hold.min(world.left()));
    let (mut over, mut lost) = (std::pin::pin!(over), std::pin::pin!(guard.lost()));
    loop {
        let renewal = guard.renewal();
        tokio::select! {
            biased;
            _ = &mut lost => return,
            () = &mut over => return,
            () = world.stopped() => return,
            () = renewal => world.tally.renewals.add(),
        }
    }
}

/// Writes as the holder of the lock. A rejected write is a breach only if the lease is certain to be still active.
fn write(world: &World, lock: usize, token: u64, sure_until: impl Fn() -> Moment) {
    match world.write(lock, token) {
        Ok(()) => world.tally.writes.add(),
        Err(stale) if world.now() < sure_until() => {
            world.breach(lock, Breach::HolderTurnedAway { token, newest: stale.newest });
        }
        // The rejection is correct: the write came after the end of the lease. The release will report the loss, too.
        Err(_) => {}
    }
}

/// Simulates a client that is paused after its first write and does not notice that its lease ends.
async fn pause(world: &World, owner: &str, lock: usize) -> Result<(), Error> {
    let sent_at = world.now();
    let request = AcquireRequest {
        owner_id: owner.into(),
        ttl_ms: Some(world.plan.ttl.millis()),
        request_id: Some(request_id()),
        wait_ms: Some(DurationArg(world.left()).millis()),
        ..AcquireRequest::default()
    };
    let acquired = tokio::select! {
        acquired = world.client.acquire(&world.names[lock], &request) => acquired?,
        () = world.stopped() => return Ok(()),
    };
    world.tally.acquire.record(world.now().since(sent_at));
    let token = acquired.fencing_token;
    let lasts = acquired.expires_after_send_ms.map_or(Duration::MAX, Duration::from_millis);
    let deadline = sent_at + (lasts - lasts / DRIFT);
    if world.begin(lock, token, deadline) {
        write(world, lock, token, || deadline);
        world.cease(lock, token, deadline);
    }
    world.tally.pauses.add();
    world.overtaken(lock, token).await;
    go_on(world, lock, acquired).await
}

/// Continues after the pause. Another client has written since, so the server must reject the write, renewal and
/// release.
async fn go_on(world: &World, lock: usize, acquired: Acquired) -> Result<(), Error> {
    let (tally, token) = (&world.tally, acquired.fencing_token);
    tally.stale_writes.injected.add();
    // If the write is accepted, the history records a breach.
    if world.write(lock, token).is_err() {
        tally.stale_writes.rejected.add();
    }
    let Acquired { owner_id, lease_id, lock_name, .. } = acquired;
    tally.stale_renewals.injected.add();
    let extend_by_ms = world.plan.ttl.millis();
    let renewal = RenewRequest {
        owner_id: owner_id.clone(),
        lease_id: lease_id.clone(),
        fencing_token: token,
        extend_by_ms,
        request_id: None,
    };
    match world.client.renew(&lock_name, &renewal).await {
        Ok(_) => world.breach(lock, Breach::StaleRenewalAccepted { token }),
        Err(Error::NotRenewed(_)) => tally.stale_renewals.rejected.add(),
        Err(error) => tally.error(&error),
    }
    tally.stale_releases.injected.add();
    let release = ReleaseRequest { owner_id, lease_id, fencing_token: token, request_id: None };
    match world.client.release(&lock_name, &release).await {
        Ok(_) => world.breach(lock, Breach::StaleReleaseAccepted { token }),
        Err(Error::NotReleased(_)) => tally.stale_releases.rejected.add(),
        Err(error) => return Err(error),
    }
    Ok(())
}
