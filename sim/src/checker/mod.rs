//! The checker. It stands outside the system and judges only by what clients sent and were told at true
//! times, by which faults there were, and (for "acknowledged is durable") by what each start found on disk.
//!
//! Each file holds one promise and the reasoning that makes a breach of it certain: where the outside cannot
//! know, nothing is said.

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

/// What the checker found.
pub struct Verdict {
    /// Everything that is wrong.
    pub violations: Vec<String>,
    /// How many leases were acknowledged.
    pub n_leases: usize,
}

/// What is wrong with a history.
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

/// What was found so far.
#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn add(&mut self, promise: &str, what: String) {
        // The first few tell the story.
        if self.0.len() < 20 {
            self.0.push(format!("{promise}: {what}"));
        }
    }
}
