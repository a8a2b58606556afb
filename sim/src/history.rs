//! The history of a run from outside: the requests and responses of clients at true times, and the faults. The checker
//! sees only this, and the state that each start found on disk.

use crate::message::{Answer, Claim, Request};
use crate::plan::Plan;
use crate::store::Recovery;
use crate::time::Time;

/// The index of an operation in the history.
pub type OperationId = usize;

/// A request and its response. A repeated request is a separate operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The client that sent it.
    pub client: usize,
    /// The request.
    pub request: Request,
    /// When it was sent.
    pub sent_at: Time,
    /// How many copies the network made of it. Zero if it was lost.
    pub n_copies: u64,
    /// The response that the client received, and when.
    pub answer: Option<(Time, Answer)>,
    /// Whether the client has stopped waiting for the response.
    pub is_given_up: bool,
    /// Until when the client may rely on the response, by its own clock and with its margin.
    pub good_until: Option<Time>,
}

/// A time without a server.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// The server might have written nothing since this time.
    pub from: Time,
    /// When the server was back.
    pub to: Time,
    /// Whether lock time stood still during the outage.
    pub is_frozen: bool,
}

/// A write to a protected resource.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// The lease and token of the writer.
    pub claim: Claim,
    /// When it arrived.
    pub at: Time,
    /// Whether the resource accepted the token.
    pub is_accepted: bool,
}

/// The whole history of a run.
#[derive(Debug)]
pub struct History {
    /// The settings of the run.
    pub plan: Plan,
    /// All operations, in the order in which they were sent.
    pub operations: Vec<Operation>,
    /// Times without a server.
    pub outages: Vec<Outage>,
    /// Times in which the server was suspended.
    pub pauses: Vec<(Time, Time)>,
    /// The state that each start found on disk, and when.
    pub recoveries: Vec<(Time, Recovery)>,
    /// When the server was restored from a backup.
    pub restores: Vec<Time>,
    /// All writes to protected resources, in order.
    pub writes: Vec<Write>,
    /// Why and when the server refused to start.
    pub refusals: Vec<(Time, String)>,
    /// Damage that a start would not have noticed.
    pub unseen: Vec<(Time, String)>,
    /// The number of faults of all kinds.
    pub n_faults: u64,
}

impl History {
    /// Creates an empty history.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            operations: Vec::new(),
            outages: Vec::new(),
            pauses: Vec::new(),
            recoveries: Vec::new(),
            restores: Vec::new(),
            writes: Vec::new(),
            refusals: Vec::new(),
            unseen: Vec::new(),
            n_faults: 0,
        }
    }

    /// Returns for how much of this span lock time might have stood still.
    pub fn frozen_within(&self, from: Time, to: Time) -> Time {
        let frozen = self.outages.iter().filter(|outage| outage.is_frozen);
        frozen.map(|outage| overlap((outage.from, outage.to), (from, to))).sum()
    }

    /// Returns for how much of this span the server was suspended.
    pub fn paused_within(&self, from: Time, to: Time) -> Time {
        self.pauses.iter().map(|pause| overlap(*pause, (from, to))).sum()
    }

    /// Returns whether the server was away at any time of this span.
    pub fn was_away_within(&self, from: Time, to: Time) -> bool {
        self.outages.iter().any(|outage| overlap((outage.from, outage.to), (from, to)) > 0)
    }

    /// Returns whether the server was restored from a backup in this span.
    pub fn was_restored_within(&self, from: Time, to: Time) -> bool {
        self.restores.iter().any(|at| (from..=to).contains(at))
    }
}

fn overlap(a: (Time, Time), b: (Time, Time)) -> Time {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}
