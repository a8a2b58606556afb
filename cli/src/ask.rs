//! Asking the server from a command: a runtime for the time it takes, and patience where patience is safe.

use std::time::{Duration, Instant};

use leasehold::api::{Code, Reason};
use leasehold::{Error, Retry};

use crate::exit::{Failure, SYSTEM};
use crate::output::{OutputArgs, print_json};

/// A try that lasted this long got through to the server: failures before it count no more.
const GOT_THROUGH: Duration = Duration::from_secs(10);

/// Does the work of a command. With `--json`, a failure is told in JSON too.
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

/// With `--json`, tells a failure in JSON too.
pub(crate) fn told<T>(output: OutputArgs, done: Result<T, Failure>) -> Result<T, Failure> {
    match done {
        Err(failure) if output.json && !failure.why.is_empty() => {
            // If nobody can be told, it failed all the same, and standard error has it.
            let _ = print_json(&failure.json());
            Err(failure)
        }
        done => done,
    }
}

/// Asks the same again as long as that may help. Only for questions whose effect is the same once or twice: with a
/// request id, or about a lease that is named by its id.
pub(crate) async fn persist<T, F>(mut question: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let retry = Retry::default();
    let mut n_failures = 0;
    let mut is_uncertain = false;
    loop {
        let asked_at = Instant::now();
        let error = match question().await {
            Ok(answer) => return Ok(answer),
            Err(error) if is_uncertain => error.after_uncertain(),
            Err(error) => error,
        };
        is_uncertain = error.may_have_taken_effect();
        n_failures = if asked_at.elapsed() > GOT_THROUGH { 1 } else { n_failures + 1 };
        if !may_help(&error) || n_failures >= retry.attempts_max {
            return Err(error);
        }
        let doubled = retry.pause_min.saturating_mul(1 << n_failures.min(16)).min(retry.pause_max);
        let pause = error.retry_after().unwrap_or(doubled);
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}

fn may_help(error: &Error) -> bool {
    match error {
        Error::NotAcquired(no) => no.reason == Reason::BusyRetry,
        // It lasts as long as its operator wants.
        Error::Failed { failure, .. } if failure.code == Code::Maintenance => false,
        error => error.is_retryable(),
    }
}
