//! Errors in the form that Redis uses: an upper-case word for the kind, then the reason.

use leasehold_auth::Denied;
use leasehold_core::{Exceeded, Limit, Rejection};
use leasehold_engine as engine;

use super::reply::Reply;
use crate::dialect::limit::{Met, met};
use crate::dialect::rejection::in_words;

impl From<Denied> for Reply {
    fn from(denied: Denied) -> Self {
        Reply::Error(match denied {
            Denied::Unauthenticated(_) => {
                "NOAUTH Authentication required. AUTH takes an API key as the password".into()
            }
            Denied::Forbidden(why) | Denied::Origin(why) => format!("NOPERM {why}"),
            Denied::TooOften(why, _) | Denied::Unavailable(why) => format!("ERR {why}"),
        })
    }
}

impl From<engine::Error> for Reply {
    fn from(error: engine::Error) -> Self {
        match error {
            // Commands have no request id, so the client cannot safely repeat them.
            engine::Error::Unknown => Reply::error("the command might have taken effect"),
            other => Reply::error(other),
        }
    }
}

impl From<Rejection> for Reply {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Limit(exceeded) => Reply::error(exceeds(exceeded)),
            Rejection::Member { why, .. } => (*why).into(),
            Rejection::Repeated { .. } => Reply::error("a key is named twice in the command"),
            Rejection::LimitDiffers { limit } => Reply::error(format_args!(
                "the holders of this semaphore agreed on {limit}; all must use the same limit"
            )),
            other => Reply::error(in_words(&other)),
        }
    }
}

fn exceeds(exceeded: Exceeded) -> String {
    let what = match exceeded.limit {
        Limit::Name => "the key",
        Limit::Owner => "the value",
        Limit::Ttl => "the expiry",
        Limit::Holders => "the limit",
        Limit::Group => "the number of keys",
        _ => "the command",
    };
    match met(exceeded) {
        Met::Request(why) => format!("{what} {why}"),
        Met::Room(why) => why,
    }
}

/// Returns whether a rejection only means that another owner holds the lock, or that the caller does not. Redis
/// reports these as ordinary replies, not as errors.
pub(super) fn is_no(rejection: &Rejection) -> bool {
    match rejection {
        Rejection::Member { why, .. } => is_no(why),
        Rejection::Held(_)
        | Rejection::Grace { .. }
        | Rejection::NoSuchLease
        | Rejection::NotOwner
        | Rejection::Ended(_)
        | Rejection::StillWaiting => true,
        _ => false,
    }
}
