//! Counts requests that were refused because of a limit, by the limit's setting.

use leasehold_core::Rejection;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::Book;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

/// The counter of refused requests, by setting.
#[derive(Clone)]
pub struct Refusals(Family<LimitLabel, Counter>);

impl Refusals {
    pub(crate) fn register(book: &mut Book) -> Self {
        let refusals = Family::default();
        let help = "Requests refused because of a limit, by its setting";
        book.add("leasehold_limit_refusals", help, refusals.clone());
        Self(refusals)
    }

    /// Counts a request refused by this setting's limit.
    pub fn count(&self, limit: &'static str) {
        self.0.get_or_create(&LimitLabel { limit }).inc();
    }

    /// Counts a rejected request, if a limit was the reason.
    pub(crate) fn count_rejection(&self, rejection: &Rejection) {
        match rejection {
            Rejection::Limit(exceeded) => self.count(exceeded.limit.setting()),
            Rejection::QueueFull { .. } => self.count("queue-max"),
            Rejection::Member { why, .. } => self.count_rejection(why),
            _ => {}
        }
    }
}
