//! Retries of requests.

use std::time::{Duration, Instant};

use leasehold::Error;
use leasehold_conformance::bug::Bug;

/// The time limit of one response, unless the command sets another.
const ANSWER_MAX: Duration = Duration::from_secs(6);
const PAUSE: Duration = Duration::from_millis(100);

/// Returns whether a request is repeated after this error: 12 times, or for as long as the client waits.
pub(crate) fn is_worth_it(error: &Error) -> bool {
    error.is_retryable() && !error.is_conflict()
}

/// The attempts of one request.
pub(crate) struct Tries {
    n_left: u32,
    until: Option<Instant>,
    begun_at: Instant,
}

impl Tries {
    pub(crate) fn of_wait(wait: Duration) -> Self {
        let until = Some(Instant::now() + wait).filter(|_| !wait.is_zero());
        Self { n_left: 12, until, begun_at: Instant::now() }
    }

    pub(crate) fn few() -> Self {
        Self::of_wait(Duration::ZERO)
    }

    /// Returns whether there is another attempt, after a pause.
    pub(crate) async fn again(&mut self, error: &Error) -> bool {
        self.n_left = self.n_left.saturating_sub(1);
        let is_left = self.until.map_or(self.n_left > 0, |until| Instant::now() < until);
        let is_late =
            Bug::chosen() == Some(Bug::NoTimeForTheNext) && self.begun_at.elapsed() >= ANSWER_MAX;
        let again = is_left && !is_late && is_worth_it(error);
        if again {
            tokio::time::sleep(PAUSE).await;
        }
        again
    }
}

/// Returns a unique request id.
pub(crate) fn request_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static N: AtomicU64 = AtomicU64::new(0);
    format!("naive-{}-{}", std::process::id(), N.fetch_add(1, Relaxed))
}
