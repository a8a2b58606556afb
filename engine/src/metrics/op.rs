//! Metrics of operations on locks: how often, with which result, and how long they took.

use std::time::Duration;

use leasehold_core::Command;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::timing::{Scale, Shown, Timing, Unit};
use super::{Book, ResultLabel};

/// A counted operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the commands of the same names")]
pub enum Op {
    Acquire,
    Renew,
    Release,
}

const OPS: [(Op, &str); 3] =
    [(Op::Acquire, "acquire"), (Op::Renew, "renew"), (Op::Release, "release")];

impl Op {
    /// Returns the name of the operation.
    pub fn name(self) -> &'static str {
        match self {
            Op::Acquire => "acquire",
            Op::Renew => "renew",
            Op::Release => "release",
        }
    }

    pub(crate) fn of_command(command: &Command) -> Option<Self> {
        match command {
            Command::Acquire(_) | Command::AcquireAll(_) => Some(Op::Acquire),
            Command::Renew(_) | Command::RenewAll(_) => Some(Op::Renew),
            Command::Release(_) | Command::ReleaseAll(_) => Some(Op::Release),
            _ => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OpLabel {
    op: &'static str,
}

/// The results of each operation, in the order of [`OPS`].
pub struct Ops([Results; 3]);

/// The counters of one operation. They are looked up once, so that counting is one addition.
struct Results {
    success: Counter,
    fail: Counter,
    busy: Counter,
    latency: Timing,
    db_busy: Counter,
}

impl Ops {
    pub(crate) fn register(book: &mut Book) -> Self {
        Self(results(book))
    }

    /// The number of granted requests since the start.
    pub fn n_granted(&self) -> u64 {
        self.of(Some(Op::Acquire)).map_or(0, |acquire| acquire.success.get())
    }

    pub(crate) fn busy(&self, op: Option<Op>) {
        if let Some(results) = self.of(op) {
            results.busy.inc();
            results.db_busy.inc();
        }
    }

    /// Counts a request that was refused before it was applied.
    #[inline]
    pub fn failed(&self, op: Option<Op>) {
        if let Some(results) = self.of(op) {
            results.fail.inc();
        }
    }

    pub(crate) fn answered(&self, op: Option<Op>, is_success: Option<bool>, took: Duration) {
        let (Some(results), Some(is_success)) = (self.of(op), is_success) else { return };
        if is_success {
            results.success.inc()
        } else {
            results.fail.inc()
        };
        results.latency.observe(took);
    }

    #[inline]
    fn of(&self, op: Option<Op>) -> Option<&Results> {
        OPS.iter().position(|(known, _)| Some(*known) == op).map(|at| &self.0[at])
    }
}

/// Registers the counters and timings of each operation.
fn results(book: &mut Book) -> [Results; 3] {
    let db_busy = Family::<OpLabel, Counter>::default();
    let results = OPS.map(|(_, op)| {
        let totals = Family::<ResultLabel, Counter>::default();
        let help = format!("Requests to {op} a lock, by result");
        book.add(format!("lock_{op}"), help, totals.clone());
        let counter = |result| totals.get_or_create(&ResultLabel { result }).clone();
        Results {
            success: counter("success"),
            fail: counter("fail"),
            busy: counter("busy"),
            latency: Timing::new(Scale::WORK),
            db_busy: db_busy.get_or_create(&OpLabel { op }).clone(),
        }
    });
    let series = || {
        let all = OPS.iter().zip(&results);
        all.map(|((_, op), results)| (vec![("op", *op)], results.latency.clone())).collect()
    };
    let help = "Response time in milliseconds, including waiting";
    let shown = Shown { unit: Unit::Milliseconds, series: series() };
    book.add("lock_op_latency_ms", help, shown);
    let help = "Response time, including waiting";
    book.add("leasehold_op_seconds", help, Shown { unit: Unit::Seconds, series: series() });
    book.add("lock_db_busy", "Refused because another process held the database", db_busy);
    results
}
