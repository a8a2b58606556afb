//! What can go wrong, and the two things to know about it: may it be tried again, and could it have happened?

use std::fmt;
use std::time::Duration;

use leasehold_api::{
    Code, Failure, LeaseEnd, NotAcquired, NotReleased, NotRenewed, NotRenewedAll, Reason,
};

use crate::Lost;

/// Why a call did not do what was asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The lock is not to be had now.
    NotAcquired(Box<NotAcquired>),
    /// There is nothing to renew: the lease is over.
    NotRenewed(NotRenewed),
    /// One of several leases is over, and says which; so none of them was renewed.
    NotRenewedAll(Box<NotRenewedAll>),
    /// There was nothing to give back: the lease was over before.
    NotReleased(NotReleased),
    /// The lock was lost while it was needed.
    Lost {
        /// Why it is no longer ours.
        lost: Lost,
        /// The name of the lock, or of all of several.
        locks: Vec<String>,
        /// How the server said that the lease ended, of a lock that is [watched](crate::LockRequest::watched).
        ending: Option<Box<LeaseEnd>>,
    },
    /// The server said no, or failed and said so.
    Failed {
        /// The status of the HTTP answer.
        status: u16,
        /// What the server said.
        failure: Failure,
    },
    /// No connection came about, so nothing was sent: the URL, and why.
    Unreachable(String),
    /// The server's certificate cannot be verified, so nothing was sent: the URL, and why. Asking again does not help.
    Untrusted(String),
    /// The request was sent, but no whole answer came in time.
    Broken(String),
    /// An answer, but none of a Leasehold server: perhaps there is a proxy in between.
    Foreign {
        /// The status of the HTTP answer.
        status: u16,
        /// How its body begins.
        body: String,
    },
    /// It makes no sense, and was not sent.
    Invalid(String),
}

impl Error {
    /// The same question may be answered otherwise later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::NotAcquired(_) | Error::Unreachable(_) | Error::Broken(_) => true,
            Error::NotRenewed(_) | Error::NotRenewedAll(_) | Error::NotReleased(_) => false,
            Error::Lost { .. } | Error::Invalid(_) | Error::Untrusted(_) => false,
            Error::Failed { failure, .. } => failure.retryable,
            // Whoever does not implement it will not do so later either.
            Error::Foreign { status: 501, .. } => false,
            Error::Foreign { status, .. } => *status >= 500 || *status == 429,
        }
    }

    /// What was asked for may have happened all the same. Ask again with the same `request_id` to find out.
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Error::Broken(_) => true,
            Error::Failed { failure, .. } => failure.may_have_taken_effect,
            Error::Foreign { status, .. } => *status >= 500 || *status < 400,
            _ => false,
        }
    }

    /// The error of the last of several tries with the same request id, one of which may have taken effect: so may this
    /// one then, unless it is an answer to all of them.
    #[must_use]
    pub fn after_uncertain(self) -> Self {
        match self {
            Error::Unreachable(why) | Error::Untrusted(why) => Error::Broken(format!(
                "an earlier try got no answer, and now: cannot connect to {why}"
            )),
            Error::Failed { status, mut failure } => {
                failure.may_have_taken_effect |= failure.retryable;
                Error::Failed { status, failure }
            }
            error @ Error::Foreign { .. }
                if error.is_retryable() && !error.may_have_taken_effect() =>
            {
                Error::Broken(format!("an earlier try got no answer, and now: {error}"))
            }
            error => error,
        }
    }

    /// A server that cannot reach its store says so, with 503 `BUSY` or `UNKNOWN`. While an acquire waits in a queue,
    /// the same request is sent again until the wait is over.
    pub fn is_outage(&self) -> bool {
        matches!(self, Error::Failed { status: 503, failure }
            if failure.retryable && matches!(failure.code, Code::Busy | Code::Unknown))
    }

    /// When the server wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::NotAcquired(no) => Some(Duration::from_millis(no.recommended_retry_ms)),
            _ => None,
        }
    }

    /// Somebody else has the lock, or goes first.
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
            Error::Broken(why) => write!(f, "no answer, it may have taken effect: {why}"),
            Error::Foreign { status, body } if body.is_empty() => {
                write!(f, "not an answer of a Leasehold server ({status})")
            }
            Error::Foreign { status, body } => {
                write!(f, "not an answer of a Leasehold server ({status}): {body}")
            }
            Error::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

/// Which locks are lost, why, and which of them is the reason as far as the server told that.
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
