//! Renews leases in the background, for as long as their guard exists.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::clock::{Clock, Moment};
use crate::tenure::{Lost, Tenure};
use crate::{Error, random};

/// Fractions of the TTL: when to renew, the time limit of one try, and the pauses between failed tries.
const RENEW_AFTER: u32 = 3;
const TRY_FOR: u32 = 6;
const PAUSE_MIN: u32 = 40;
const PAUSE_MAX: u32 = 10;
/// Minimum time limit of one try, however short the TTL.
const TRY_FOR_MIN: Duration = Duration::from_millis(50);

/// A task that renews a lease. Dropping this stops the task.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    task: JoinHandle<()>,
}

impl Heartbeat {
    /// Renews a lease that ends at `end` unless renewed; the log calls it `what`. `renew` returns how long the lease
    /// lasts from when it was called.
    pub(crate) fn start<R, F>(
        clock: Arc<dyn Clock>,
        tenure: Arc<Tenure>,
        what: String,
        ttl: Duration,
        end: Moment,
        renew: R,
    ) -> Self
    where
        R: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<Duration, Error>> + Send + 'static,
    {
        Self { task: tokio::spawn(beat(clock, tenure, what, ttl, end, renew)) }
    }

    /// Stops the task, and returns when it has stopped. It sends nothing after that.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn beat<R, F>(
    clock: Arc<dyn Clock>,
    tenure: Arc<Tenure>,
    what: String,
    ttl: Duration,
    end: Moment,
    renew: R,
) where
    R: Fn() -> F,
    F: Future<Output = Result<Duration, Error>>,
{
    // Counted back from the end, because after a wait in the queue the send time is long ago.
    let mut next_at = end - (ttl - ttl / RENEW_AFTER);
    let mut n_failed = 0;
    loop {
        tokio::select! {
            biased;
            _ = tenure.lost() => return,
            () = clock.sleep_until(next_at) => {}
        }
        let sent_at = clock.now();
        let answer = tokio::select! {
            biased;
            _ = tenure.lost() => return,
            answer = renew() => answer,
            () = clock.sleep_until(sent_at + (ttl / TRY_FOR).max(TRY_FOR_MIN)) => {
                Err(Error::Broken("the renewal took too long".into()))
            }
        };
        match answer {
            Ok(expires_in) => {
                if tenure.extend(sent_at, expires_in).is_err() {
                    return;
                }
                n_failed = 0;
                next_at = sent_at + ttl / RENEW_AFTER;
            }
            Err(error) if is_final(&error) => {
                tracing::warn!(lock = what, %error, "the server reports that the lease has ended");
                tenure.lose(Lost::Ended);
                return;
            }
            // No other error reveals whether the lease has ended. If it has, the deadline passes.
            Err(error) => {
                tracing::warn!(lock = what, %error, n_failed, "renewal failed; retrying");
                next_at = clock.now() + pause(ttl, n_failed);
                n_failed += 1;
            }
        }
    }
}

/// Returns whether the server knows that there is no lease or session to renew.
fn is_final(error: &Error) -> bool {
    match error {
        Error::NotRenewed(_) | Error::NotRenewedAll(_) => true,
        Error::Failed { failure, .. } => failure.code == leasehold_api::Code::NoSuchSession,
        _ => false,
    }
}

fn pause(ttl: Duration, n_failed: u32) -> Duration {
    let pause = (ttl / PAUSE_MIN).saturating_mul(1 << n_failed.min(16));
    random::jittered(pause.min(ttl / PAUSE_MAX))
}
