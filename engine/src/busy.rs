//! Rejects requests while the store cannot be written.

use super::error::Error;
use super::message::Asked;
use super::metrics::Op;
use super::writer::Writer;

impl Writer {
    pub(super) fn refuse_busy(&mut self, asks: &mut Vec<Asked>) {
        self.was_busy = true;
        let error = self.busy();
        for ask in asks.drain(..) {
            self.metrics.ops.busy(Op::of(&ask.question));
            self.post(ask.reply_to, Err(error));
        }
        self.send();
    }

    /// Returns the error for requests while the store cannot be written.
    pub(super) fn busy(&self) -> Error {
        self.durability.unavailable(self.health.room())
    }

    /// Logs when the store stops answering and when it answers again, once each.
    pub(super) fn note_silence(&mut self, is_silent: bool) {
        if !self.durability.can_be_overtaken() || self.was_silent == is_silent {
            return;
        }
        self.was_silent = is_silent;
        if !is_silent {
            self.shared.is_unsure(false);
        }
        if is_silent {
            self.metrics.cluster.is_unconfirmed();
            let why = self.health.why_unanswered();
            tracing::error!(
                %why,
                "the store is unavailable; no lock request can be answered until it recovers"
            );
        } else {
            self.metrics.cluster.leads(Some(self.epoch));
            tracing::info!("the store is available again");
        }
    }

    /// Rejects all queued requests. Clients can repeat them.
    pub(super) fn refuse_all(&mut self) {
        let mut asks = std::mem::take(&mut self.asks);
        asks.extend(self.shared.inbox.drain());
        self.refuse_busy(&mut asks);
    }
}
