//! Errors in the form that Redis uses: an upper-case word for the kind, then the reason.

use leasehold_api::Code;
use leasehold_auth::Denied;
use leasehold_core::{Exceeded, Limit, Rejection};
use leasehold_engine as engine;

use super::reply::Reply;
use crate::failure::{Effect, RequestFailure, rendered};
use crate::limit::{Met, met};
use crate::rejection::in_words;

impl From<RequestFailure> for Reply {
    fn from(failure: RequestFailure) -> Self {
        match failure.code {
            Code::Unauthenticated => Reply::Error(
                "NOAUTH Authentication required. AUTH takes an API key as the password".into(),
            ),
            Code::Forbidden | Code::OriginNotAllowed => {
                Reply::Error(format!("NOPERM {}", failure.text))
            }
            // Commands have no request id, so the client cannot safely repeat them.
            _ if failure.effect() == Effect::Unknown => {
                Reply::error("the command might have taken effect")
            }
            _ => Reply::error(failure.text),
        }
    }
}

rendered!(Reply: Denied, engine::Error);

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure;

    #[test]
    fn every_failure_is_an_error_that_says_its_kind_and_reason() {
        for failure in failure::tests::all() {
            let told = format!("{failure:?}");
            let (code, effect, text) = (failure.code, failure.effect(), failure.text.clone());
            let Reply::Error(said) = failure.into() else { panic!("{told}: no error") };
            let (kind, why) = said.split_once(' ').expect("a kind");
            match code {
                Code::Unauthenticated => assert_eq!(kind, "NOAUTH", "{told}"),
                Code::Forbidden | Code::OriginNotAllowed => {
                    assert_eq!((kind, why), ("NOPERM", &*text), "{told}");
                }
                _ if effect == Effect::Unknown => {
                    assert_eq!(said, "ERR the command might have taken effect");
                }
                _ => assert_eq!((kind, why), ("ERR", &*text), "{told}"),
            }
        }
    }
}
