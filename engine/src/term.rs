//! How a writer starts and ends.

use leasehold_base::pace;
use leasehold_core::{Resume, mutant};

use super::batch::Batch;
use super::commit::SETTLE_PAUSE;
use super::error::Error;
use super::metrics::Turn;
use super::writer::Writer;
use leasehold_store::{self as store, Dismissal, Draft, Kind};

/// Maximum bytes that ending the wait of one client adds to a record.
const RESUMED_BYTES_MAX: usize = 256;

impl Writer {
    /// Parks the waiters that the last writer left behind, if a repeated request can find them, and ends the other
    /// waits. This is durable before any request is accepted. Uses several records if one would be too long.
    pub(super) fn begin(&mut self) -> Result<(), store::Error> {
        self.metrics.observe_sessions(|dialect| self.machine.n_sessions(dialect));
        let n_waiters_max = self.store.record_bytes_max() / RESUMED_BYTES_MAX;
        loop {
            let permit = self.store.reserve()?;
            let mut batch = Batch::default();
            let more = self.apply(Resume { n_waiters_max }, &mut batch);
            self.commit(permit, Kind::Epoch, batch)?;
            while self.held.is_some() {
                pace::sleep(SETTLE_PAUSE);
                self.settle()?;
                if self.durability.outlives_writer() && self.shared.is_stopping() {
                    return Err(store::Error::Unknown("the server stops".into()));
                }
            }
            if !more.unwrap_or(false) {
                return Ok(());
            }
        }
    }

    /// Records the current time, so that the next leader continues from it.
    fn last_tick(&mut self) {
        let Ok(permit) = self.store.reserve() else { return };
        let draft = Draft { kind: Kind::Tick, moment: self.clock.moment(), changes: &[] };
        if let Err(error) = self.store.append(permit, draft) {
            tracing::debug!(%error, "the last tick is not known to be durable");
        }
    }

    /// Gives up the right to write so that another process can take over immediately. All applied changes are durable.
    pub(super) fn step_down(&mut self) -> Result<(), store::Error> {
        self.last_tick();
        let why = self.store.dismissal();
        if matches!(why, Dismissal::Unreached(_)) {
            self.metrics.cluster.count(Turn::HandedOver);
        }
        let given_up = self.store.finish();
        self.end(given_up.and(Err(store::Error::Fenced(why.to_string()))))
    }

    /// Tells all waiting clients that the engine or this leadership has ended, and how.
    pub(super) fn end(&mut self, result: Result<(), store::Error>) -> Result<(), store::Error> {
        // If another server has taken over, this process follows it.
        let error = result.as_ref().err();
        let is_overtaken = error.is_some_and(|error| self.durability.is_overtaken(error));
        let asked = if is_overtaken { self.shared.follow() } else { self.shared.inbox.close() };
        // Queued requests that are in no round have had no effect.
        let error = if is_overtaken { Error::NotLeading } else { Error::Stopping };
        for ask in self.asks.drain(..).chain(asked) {
            ask.reply_to.tell(Err(error));
        }
        let is_told_wrongly = is_overtaken && mutant!(LostBatchToldNotLeading);
        let unknown = if is_told_wrongly { Error::NotLeading } else { Error::Unknown };
        if let Some(held) = self.held.take() {
            if is_told_wrongly {
                held.batch.tell_all(unknown);
            } else {
                held.batch.tell_unknown(error);
            }
        }
        let error = if result.is_ok() { Error::Stopping } else { unknown };
        for waiter in self.waiters.drain() {
            waiter.reply_to.tell(Err(error));
        }
        if is_overtaken {
            return result;
        }
        if self.durability.outlives_writer() && result.is_ok() {
            self.last_tick();
        }
        let result = result.and_then(|()| self.store.finish());
        // A process in a cluster ends later.
        if !self.durability.outlives_writer() {
            self.shared.stopped.send_replace(true);
        }
        result
    }
}
