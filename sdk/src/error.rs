//! Errors, with two facts about each: whether to retry, and whether the request might have taken effect.

use std::fmt;
use std::time::Duration;

use leasehold_api::{
    Code, Failure, LeaseEnd, NotAcquired, NotReleased, NotRenewed, NotRenewedAll, Reason,
};

use crate::Lost;

/// Why a call failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The lock is not available now.
    NotAcquired(Box<NotAcquired>),
    /// The lease was not renewed, because it has ended.
    NotRenewed(NotRenewed),
    /// One of several leases has ended, which the error names. So none of them was renewed.
    NotRenewedAll(Box<NotRenewedAll>),
    /// The lease was not released, because it had ended before.
    NotReleased(NotReleased),
    /// The lock was lost while the caller needed it.
    Lost {
        /// Why it was lost.
        lost: Lost,
        /// The name of the lock, or the names of all locks that were held together.
        locks: Vec<String>,
        /// How the lease ended according to the server, if the lock was [watched](crate::LockRequest::watched).
        ending: Option<Box<LeaseEnd>>,
    },
    /// The server rejected the request, or reported that it failed.
    Failed {
        /// The HTTP status of the response.
        status: u16,
        /// The failure that the server reported.
        failure: Failure,
    },
    /// The connection failed, so no request was sent: the URL and the cause.
    Unreachable(String),
    /// The server's certificate cannot be verified, so no request was sent: the URL and the cause. A retry does not
    /// help.
    Untrusted(String),
    /// The request was sent, but no complete response arrived in time.
    Broken(String),
    /// The response did not come from a Leasehold server. There might be a proxy in between.
    Foreign {
        /// The HTTP status of the response.
        status: u16,
        /// The start of the response body.
        body: String,
    },
    /// The request was invalid, and was not sent.
    Invalid(String),
}

impl Error {
    /// Returns whether the same request might succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::NotAcquired(_) | Error::Unreachable(_) | Error::Broken(_) => true,
            Error::NotRenewed(_) | Error::NotRenewedAll(_) | Error::NotReleased(_) => false,
            Error::Lost { .. } | Error::Invalid(_) | Error::Untrusted(_) => false,
            Error::Failed { failure, .. } => failure.retryable,
            // A server that does not implement a method will not do so on a retry.
            Error::Foreign { status: 501, .. } => false,
            Error::Foreign { status, .. } => *status >= 500 || *status == 429,
        }
    }

    /// Returns whether the request might have taken effect in spite of the error. To find out, repeat it with the
    /// same `request_id`.
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Error::Broken(_) => true,
            Error::Failed { failure, .. } => failure.may_have_taken_effect,
            Error::Foreign { status, .. } => *status >= 500 || *status < 400,
            _ => false,
        }
    }

    /// Marks the error as uncertain, for the last of several tries with one request id of which an earlier one might
    /// have taken effect. An error that settles the outcome of all tries stays as it is.
    #[must_use]
    pub fn after_uncertain(self) -> Self {
        match self {
            Error::Unreachable(why) | Error::Untrusted(why) => Error::Broken(format!(
                "an earlier attempt got no response; now: cannot connect to {why}"
            )),
            Error::Failed { status, mut failure } => {
                failure.may_have_taken_effect |= failure.retryable;
                Error::Failed { status, failure }
            }
            error @ Error::Foreign { .. }
                if error.is_retryable() && !error.may_have_taken_effect() =>
            {
                Error::Broken(format!("an earlier attempt got no response; now: {error}"))
            }
            error => error,
        }
    }

    /// Returns whether the server cannot reach its store, which it reports with 503 `BUSY` or `UNKNOWN`. While an
    /// acquire waits in a queue, the client repeats the request until the wait is over.
    pub fn is_outage(&self) -> bool {
        matches!(self, Error::Failed { status: 503, failure }
            if failure.retryable && matches!(failure.code, Code::Busy | Code::Unknown))
    }

    /// Returns the retry delay that the server recommended, if any.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::NotAcquired(no) => Some(Duration::from_millis(no.recommended_retry_ms)),
            _ => None,
        }
    }

    /// Returns whether another client holds the lock or is ahead in the queue.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::NotAcquired(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotAcquired(no) => match (&no.current_owner_id, no.reason) {
                (Some(owner), Reason::Held) => write!(f, "{} (by {owner})", no.error),
                (Some(owner), Reason::Grace) => write!(f, "{} ({owner})", no.error),
                (Some(owner), _) => write!(f, "{}; {owner} holds it", no.error),
                (None, _) => f.write_str(&no.error),
            },
            Error::NotRenewed(no) => f.write_str(&no.error),
            Error::NotRenewedAll(no) => f.write_str(&no.error),
            Error::NotReleased(no) => f.write_str(&no.error),
            Error::Lost { lost, locks, ending } => told(f, *lost, locks, ending.as_deref()),
            Error::Failed { status, failure } => write!(f, "{} ({status})", failure.error),
            Error::Unreachable(why) | Error::Untrusted(why) => {
                write!(f, "cannot connect to {why}")
            }
            Error::Broken(why) => {
                write!(f, "no response; the request might have taken effect: {why}")
            }
            Error::Foreign { status, body } if body.is_empty() => {
                write!(f, "not a response of a Leasehold server ({status})")
            }
            Error::Foreign { status, body } => {
                write!(f, "not a response of a Leasehold server ({status}): {body}")
            }
            Error::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

/// Writes which locks are lost, why, and which one caused it if the server reported that.
fn told(
    f: &mut fmt::Formatter<'_>,
    lost: Lost,
    locks: &[String],
    ending: Option<&LeaseEnd>,
) -> fmt::Result {
    let names: Vec<_> = locks.iter().map(|lock| format!("{lock:?}")).collect();
    write!(f, "lost {}: {lost}", names.join(", "))?;
    let Some(LeaseEnd { lock_name, how, reason, .. }) = ending else { return Ok(()) };
    write!(f, " ({lock_name:?} was {how}")?;
    match reason {
        Some(reason) => write!(f, ": {reason})"),
        None => f.write_str(")"),
    }
}
