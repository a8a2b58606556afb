//! The engine without its thread, for the simulation. The caller runs that thread's turns, and the workers' tasks, when
//! their bells ring.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_base::clock::Clock;

use super::metrics::EngineMetrics;
use super::rounds::Lead;
use super::shared::Shared;
use super::writer::Writer;
use super::{EngineHandle, Options, load};
use leasehold_store::{self as store, Store};

/// An engine that does nothing between two turns.
pub struct Stepped {
    lead: Arc<Lead<Writer>>,
    shared: Arc<Shared>,
}

impl Stepped {
    /// Loads the store, as [`super::Engine::start`] does.
    pub fn start(
        options: Options,
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: Arc<EngineMetrics>,
    ) -> Result<(Self, EngineHandle), store::Error> {
        let (lead, handle, shared) = load(options, store, clock, metrics)?;
        Ok((Self { lead, shared }, handle))
    }

    /// Does the thread's turn. Returns how long the thread could sleep without being woken, or `None` after the last
    /// round.
    pub fn turn(&self) -> Option<Duration> {
        self.lead.turn()
    }

    /// Returns ready if the thread was woken since the last time this returned ready. Otherwise registers the caller to
    /// be woken.
    pub fn poll_woken(&self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.inbox.engine.poll(context)
    }

    /// Returns whether the last round is done, in a turn of the thread or of a worker.
    pub fn has_ended(&self) -> bool {
        *self.shared.stopped.borrow()
    }
}
