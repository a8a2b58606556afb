//! What happened, as seen from outside: what clients sent and were told, at true times, and which faults
//! there were. This is all the checker sees, beside what each start found on disk.

use crate::message::{Answer, Claim, Request};
use crate::plan::Plan;
use crate::store::Recovery;
use crate::time::Time;

/// Which operation, by its place in the history.
pub type OperationId = usize;

/// One question and its answer. A repeated question is an operation of its own.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Who asked.
    pub client: usize,
    /// What.
    pub request: Request,
    /// When it was sent.
    pub sent_at: Time,
    /// How many copies the network made of it; none, if it was lost.
    pub n_copies: u64,
    /// What the client was told, and when.
    pub answer: Option<(Time, Answer)>,
    /// The client does not wait for an answer any more.
    pub is_given_up: bool,
    /// Until when the client may rely on what it was told, by its own clock and with its margin.
    pub good_until: Option<Time>,
}

/// A time without a server.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// Since then it may have written nothing down.
    pub from: Time,
    /// When it was back.
    pub to: Time,
    /// Lock time stood still meanwhile.
    pub is_frozen: bool,
}

/// Somebody wrote to what a lock protects.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// With this lease and token.
    pub claim: Claim,
    /// When it got there.
    pub at: Time,
    /// Was the token good enough?
    pub is_accepted: bool,
}

/// All of it.
#[derive(Debug)]
pub struct History {
    /// The settings of the run.
    pub plan: Plan,
    /// Everything asked, in the order of sending.
    pub operations: Vec<Operation>,
    /// Times without a server.
    pub outages: Vec<Outage>,
    /// Times in which the server stood still though it was there.
    pub pauses: Vec<(Time, Time)>,
    /// What starts found on disk, and when.
    pub recoveries: Vec<(Time, Recovery)>,
    /// When the server was put back to a backup.
    pub restores: Vec<Time>,
    /// Everything written downstream, in order.
    pub writes: Vec<Write>,
    /// Why the server would not start, if ever.
    pub refusals: Vec<(Time, String)>,
    /// Damage that a start would not have noticed.
    pub unseen: Vec<(Time, String)>,
    /// How many faults of all kinds there were.
    pub n_faults: u64,
}

impl History {
    /// An empty one.
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

    /// How much of this span lock time may have stood still.
    pub fn frozen_within(&self, from: Time, to: Time) -> Time {
        let frozen = self.outages.iter().filter(|outage| outage.is_frozen);
        frozen.map(|outage| overlap((outage.from, outage.to), (from, to))).sum()
    }

    /// How much of this span the server stood still.
    pub fn paused_within(&self, from: Time, to: Time) -> Time {
        self.pauses.iter().map(|pause| overlap(*pause, (from, to))).sum()
    }

    /// Was the server away at any time of this span?
    pub fn was_away_within(&self, from: Time, to: Time) -> bool {
        self.outages.iter().any(|outage| overlap((outage.from, outage.to), (from, to)) > 0)
    }

    /// Was it put back to a backup in this span?
    pub fn was_restored_within(&self, from: Time, to: Time) -> bool {
        self.restores.iter().any(|at| (from..=to).contains(at))
    }
}

fn overlap(a: (Time, Time), b: (Time, Time)) -> Time {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}
