//! The checker. It is separate from the system, and judges only by the requests and responses of clients at true times,
//! by the faults of the run, and (for durability) by the state that each start found on disk.
//!
//! Each file checks one promise, and contains the reasoning that makes a violation certain. If the truth cannot be
//! known from outside, nothing is reported.

mod durable;
mod exclusion;
mod expiry;
mod fence;
mod grace;
mod group;
mod lease;
mod liveness;
mod order;
mod refusal;
mod request;
mod token;

use crate::history::History;
use lease::Leases;

/// The result of a check.
pub struct Verdict {
    /// All violations.
    pub violations: Vec<String>,
    /// The number of acknowledged leases.
    pub n_leases: usize,
}

/// Checks a history.
pub fn check(history: &History) -> Verdict {
    let leases = Leases::of(history);
    let mut found = Found::default();
    exclusion::check(history, &leases, &mut found);
    token::check(history, &leases, &mut found);
    order::check(history, &leases, &mut found);
    expiry::check(history, &leases, &mut found);
    grace::check(history, &leases, &mut found);
    group::check(history, &leases, &mut found);
    request::check(history, &leases, &mut found);
    refusal::check(history, &leases, &mut found);
    durable::check(history, &leases, &mut found);
    fence::check(history, &leases, &mut found);
    liveness::check(history, &mut found);
    Verdict { violations: found.0, n_leases: leases.len() }
}

/// The violations found so far.
#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn add(&mut self, promise: &str, what: String) {
        // The first few violations are enough to understand the problem.
        if self.0.len() < 20 {
            self.0.push(format!("{promise}: {what}"));
        }
    }
}
