//! Renewing in the background, for exactly as long as somebody wants it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::clock::{Clock, Moment};
use crate::tenure::{Lost, Tenure};
use crate::{Error, random};

/// Parts of the ttl: when to renew, how long one try may take, and the pauses between tries that fail.
const RENEW_AFTER: u32 = 3;
const TRY_FOR: u32 = 6;
const PAUSE_MIN: u32 = 40;
const PAUSE_MAX: u32 = 10;
/// However short the ttl, a try gets this long.
const TRY_FOR_MIN: Duration = Duration::from_millis(50);

/// A task that renews. It ends with this value, at the latest.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    task: JoinHandle<()>,
}

impl Heartbeat {
    /// Renews what ends at `end` unless renewed, and is called `what` in the log. `renew` returns how long it lasts
    /// from when that was called.
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

    /// Ends it, and returns when it has ended: nothing is sent by it after that.
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
    // Counted back from the end: after a wait in the queue, the send time is long ago.
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
                tracing::warn!(lock = what, %error, "the server says that the lease is over");
                tenure.lose(Lost::Ended);
                return;
            }
            // Any other answer says nothing about the lease. It may be over then; the deadline will tell.
            Err(error) => {
                tracing::warn!(lock = what, %error, n_failed, "a renewal failed, it is tried again");
                next_at = clock.now() + pause(ttl, n_failed);
                n_failed += 1;
            }
        }
    }
}

/// The server knows that there is nothing to renew.
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
