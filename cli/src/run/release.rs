//! Releases the lock at the end, but not before `--at-least` has passed.

use std::time::Duration;

use leasehold::api::{Code, RenewRequest};
use leasehold::clock::{BootClock, Clock};
use leasehold::{Client, Error, Lost, Moment};

use super::args::RunArgs;
use super::ending::{Ending, Whom};
use super::held::Held;
use super::say;
use super::signals::Signals;
use crate::exit::{Failure, LOST, USAGE};
use crate::output::plain;

/// Time limit for the release. After that, the lease expires.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// A well-formed lease id that no lease has.
const UNKNOWN_LEASE: &str = "0.00000000000000000000000000000000";

/// When and how the lock is released.
pub(super) struct Release {
    ttl: Duration,
    /// The earliest time of the release: `--at-least` after the lock was acquired.
    not_before: Moment,
    verbose: bool,
}

impl Release {
    /// Returns the settings for a lock that was acquired just now.
    pub(super) fn new(args: &RunArgs) -> Self {
        let at_least = args.at_least.map_or(Duration::ZERO, |time| time.0);
        Self { ttl: args.ttl.0, not_before: BootClock.now() + at_least, verbose: args.verbose }
    }

    /// Releases the lock immediately and ignores errors.
    pub(super) async fn at_once(&self, guard: Held) {
        let _ = tokio::time::timeout(RELEASE_MAX, guard.release()).await;
    }

    /// Releases the lock when `--at-least` has passed, and returns how to end: `ending`, unless the lock was lost in
    /// the meantime. A signal ends the wait early.
    pub(super) async fn finish(
        self,
        guard: Held,
        mut signals: Signals,
        ending: Ending,
    ) -> Result<Ending, Failure> {
        let left = self.not_before.since(BootClock.now());
        // After an interruption, the operator might start the job again by hand, so `--at-least` is skipped.
        if !left.is_zero() && matches!(ending, Ending::Status(_)) {
            if left >= self.ttl {
                return self.leave(guard, left, ending).await;
            }
            if self.verbose {
                say(&format!("{}: kept for another {left:.1?}", guard.name()));
            }
            tokio::select! {
                () = BootClock.sleep_until(self.not_before) => {}
                loss = guard.lost() => return Err(lost(&guard, loss)),
                signal = signals.deadly() => {
                    self.at_once(guard).await;
                    return Ok(Ending::Signal(signal, Whom::Ourselves));
                }
            }
        }
        let name = guard.name().to_owned();
        let released = tokio::select! {
            released = tokio::time::timeout(RELEASE_MAX, guard.release()) => released,
            signal = signals.deadly() => {
                say(&format!("{name} was not released and will expire"));
                return Ok(Ending::Signal(signal, Whom::Ourselves));
            }
        };
        match released {
            Ok(Ok(())) => Ok(ending),
            Ok(Err(Error::NotReleased(no))) => {
                let why = format!("{name}: {}: it was lost before the command ended", no.error);
                Err(Failure::new(LOST, why))
            }
            not_released => {
                let why = match not_released {
                    Ok(Err(error)) => error.to_string(),
                    _ => "no answer".into(),
                };
                say(&format!("{name} was not released and will expire: {why}"));
                Ok(ending)
            }
        }
    }

    /// Extends the lease to the end of `--at-least` instead of waiting for it: the lease then expires on the server.
    async fn leave(&self, guard: Held, left: Duration, ending: Ending) -> Result<Ending, Failure> {
        let name = guard.name().to_owned();
        match tokio::time::timeout(RELEASE_MAX, guard.leave_for(left)).await {
            Ok(Ok(())) if self.verbose => say(&format!("{name}: stays held for {left:.1?}")),
            Ok(Ok(())) => {}
            Ok(Err(Error::NotRenewed(no))) => {
                let why = format!("{name}: {}: it was lost before the command ended", no.error);
                return Err(Failure::new(LOST, why));
            }
            Ok(Err(error)) => {
                say(&format!("{name} might become free before --at-least ends: {error}"))
            }
            Err(_) => say(&format!("{name} might become free before --at-least ends: no response")),
        }
        Ok(ending)
    }
}

/// Checks before the command starts that a lease can be extended by `--at-least`. The server validates the duration
/// before it looks up the lease, so renewing an id that no lease has changes nothing and reveals the limit.
pub(super) async fn check(
    client: &Client,
    args: &RunArgs,
    locks: &[String],
) -> Result<(), Failure> {
    let (Some(at_least), Some(lock)) = (args.at_least, locks.first()) else { return Ok(()) };
    if at_least.0 < args.ttl.0 {
        // `run` itself waits for such a short time.
        return Ok(());
    }
    let unknown = RenewRequest {
        owner_id: client.owner().into(),
        lease_id: UNKNOWN_LEASE.into(),
        fencing_token: 1,
        extend_by_ms: at_least.millis(),
        request_id: None,
    };
    match client.renew(lock, &unknown).await {
        Err(Error::Failed { failure, .. }) if failure.code == Code::InvalidRequest => {
            match failure.error.strip_prefix("extend_by_ms: ") {
                Some(why) => Err(Failure::new(
                    USAGE,
                    format!("--at-least: {at_least} is too long for this server: {}", plain(why)),
                )),
                None => Ok(()),
            }
        }
        // The acquire request that follows reports any other problem.
        _ => Ok(()),
    }
}

/// Returns the failure for a lost lock.
pub(super) fn lost(guard: &Held, loss: Lost) -> Failure {
    Failure::new(LOST, guard.loss(loss))
}
