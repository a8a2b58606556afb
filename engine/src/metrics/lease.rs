//! Metrics of leases: how long clients wait for and hold locks, and notes.

use std::time::Duration;

use leasehold_core::{Ending, Fact, Note, Span, What};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::Book;
use super::timing::{Scale, Shown, Timing, Unit};

/// The ways a wait for a lock can end.
const WAITED: [&str; 2] = ["granted", "ended"];

/// The ways a lease can end.
const ENDINGS: [(Ending, &str); 3] =
    [(Ending::Released, "released"), (Ending::Expired, "expired"), (Ending::Revoked, "revoked")];

/// The kinds of notes.
const NOTES: [(Note, &str); 3] = [
    (Note::HeldLong, "held_long"),
    (Note::WaitedLong, "waited_long"),
    (Note::DeadlockSuspected, "deadlock_suspected"),
];

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct NoteLabel {
    note: &'static str,
}

/// The counters and timings of leases.
pub struct Leases {
    /// Wait times of clients that got the lock, and of those that left the queue without it.
    waited: [Timing; 2],
    /// Hold times, by how the lease ended.
    held: [Timing; 3],
    expired: Counter,
    notes: [Counter; 3],
}

impl Leases {
    pub(crate) fn register(book: &mut Book) -> Self {
        let notes = Family::<NoteLabel, Counter>::default();
        let this = Self {
            waited: [(); 2].map(|()| Timing::new(Scale::LEASE)),
            held: [(); 3].map(|()| Timing::new(Scale::LEASE)),
            expired: Counter::default(),
            notes: NOTES.map(|(_, note)| notes.get_or_create(&NoteLabel { note }).clone()),
        };
        let help = "How long leases waited for their lock, by outcome";
        let series = WAITED.iter().zip(&this.waited);
        let series = series.map(|(result, timing)| (vec![("result", *result)], timing.clone()));
        let shown = Shown { unit: Unit::Seconds, series: series.collect() };
        book.add("leasehold_wait_seconds", help, shown);
        let help = "How long leases held their lock, by ending";
        let series = ENDINGS.iter().zip(&this.held);
        let series = series.map(|((_, ended), timing)| (vec![("ended", *ended)], timing.clone()));
        let shown = Shown { unit: Unit::Seconds, series: series.collect() };
        book.add("leasehold_hold_seconds", help, shown);
        book.add("lock_expired", "Leases that expired", this.expired.clone());
        let help = "Leases held or waiting too long, and deadlocks suspected";
        book.add("leasehold_notes", help, notes);
        this
    }

    /// Counts a fact.
    pub(crate) fn count(&self, fact: &Fact) {
        let time = |span: Span| Duration::from_nanos(span.as_nanos());
        match fact.what {
            What::Queued => {}
            What::Granted => self.waited[0].observe(time(fact.waited)),
            What::WaitEnded(_) => self.waited[1].observe(time(fact.waited)),
            What::Ended(how) => {
                if how == Ending::Expired {
                    self.expired.inc();
                }
                let mut held = ENDINGS.iter().zip(&self.held);
                if let Some((_, held)) = held.find(|((known, _), _)| *known == how) {
                    held.observe(time(fact.held));
                }
            }
            What::Noted(note) => {
                let counter = NOTES.iter().zip(&self.notes).find(|((known, _), _)| *known == note);
                counter.map(|(_, counter)| counter.inc());
            }
        }
    }
}
