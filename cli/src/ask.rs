//! Runs the requests of a command: a runtime for their duration, and retries where they are safe.

use std::time::Duration;

use leasehold::api::{Code, Reason};
use leasehold::{Error, Retry};
use tokio::time::Instant;

use crate::exit::{Failure, SYSTEM};
use crate::output::{OutputArgs, print_json};

/// An attempt that lasted this long had reached the server: failures before it no longer count.
const GOT_THROUGH: Duration = Duration::from_secs(10);

/// Runs the asynchronous work of a command. With `--json`, also prints a failure as JSON.
pub(crate) fn ask<T>(
    output: OutputArgs,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(Failure::new(SYSTEM, error)),
    };
    told(output, done)
}

/// With `--json`, also prints a failure as JSON.
pub(crate) fn told<T>(output: OutputArgs, done: Result<T, Failure>) -> Result<T, Failure> {
    match done {
        Err(failure) if output.json && !failure.why.is_empty() => {
            // If this cannot be printed, the command has failed anyway, and the message goes to standard error.
            let _ = print_json(&failure.json());
            Err(failure)
        }
        done => done,
    }
}

/// Repeats a request while a retry can help. Only for requests that have the same effect when applied twice: those
/// with a request id, or about a lease or session that is named by its id.
pub(crate) async fn persist<T, F>(question: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    persist_for(Duration::ZERO, question).await
}

/// Like [`persist`], for a request that can wait in a queue for the time `wait`. While the server cannot reach its
/// store, the retries continue until `wait` is over.
pub(crate) async fn persist_for<T, F>(
    wait: Duration,
    mut question: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let (retry, begun_at) = (Retry::default(), Instant::now());
    let (mut n_pauses, mut n_failures) = (0, 0);
    let mut is_uncertain = false;
    loop {
        let asked_at = Instant::now();
        let error = match question().await {
            Ok(answer) => return Ok(answer),
            Err(error) if is_uncertain => error.after_uncertain(),
            Err(error) => error,
        };
        is_uncertain = error.may_have_taken_effect();
        let got_through = asked_at.elapsed() > GOT_THROUGH;
        n_pauses = if got_through { 1 } else { n_pauses + 1 };
        let doubled = retry.pause_min.saturating_mul(1 << n_pauses.min(16)).min(retry.pause_max);
        let pause = error.retry_after().unwrap_or(doubled).mul_f64(0.5 + fastrand::f64() / 2.0);
        let is_over = if error.is_outage() && !wait.is_zero() {
            n_failures = 0;
            begun_at.elapsed() + pause >= wait
        } else {
            n_failures = if got_through { 1 } else { n_failures + 1 };
            n_failures >= retry.attempts_max
        };
        if is_over || !may_help(&error) {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

fn may_help(error: &Error) -> bool {
    match error {
        Error::NotAcquired(no) => no.reason == Reason::BusyRetry,
        // Maintenance lasts until the operator ends it.
        Error::Failed { failure, .. } if failure.code == Code::Maintenance => false,
        error => error.is_retryable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how long a request that always fails with `code` is retried.
    async fn lasts(code: Code, wait: Duration) -> Duration {
        let begun_at = Instant::now();
        let failure = leasehold::api::Failure::new(code, "no");
        let error = Error::Failed { status: 503, failure };
        let asked = persist_for(wait, || std::future::ready(Err::<(), _>(error.clone()))).await;
        asked.expect_err("it always fails");
        begun_at.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_of_the_store_ends_a_wait_only_with_its_time() {
        let secs = Duration::from_secs;
        for code in [Code::Busy, Code::Unknown] {
            let waited = lasts(code, secs(30)).await;
            assert!(waited > secs(27) && waited < secs(30), "{code:?}: {waited:?}");
            assert!(lasts(code, Duration::ZERO).await < secs(10), "it does not wait");
        }
        assert!(lasts(Code::JournalFull, secs(30)).await < secs(10));
    }
}
