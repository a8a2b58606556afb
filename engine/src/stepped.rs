//! The engine without its thread: whoever drives it runs that thread's part, as it runs the workers' tasks, when a bell
//! rings. For the simulation.

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

/// An engine that stands still between two turns.
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

    /// A turn of the thread: it does what there is to do. How long it would sleep then if nobody woke it; `None`: the
    /// end has come.
    pub fn turn(&self) -> Option<Duration> {
        self.lead.turn()
    }

    /// Was the thread woken since this last said so? If not, the next one who wakes it wakes the caller.
    pub fn poll_woken(&self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.inbox.engine.poll(context)
    }

    /// Has the end come, in whoever's turn?
    pub fn has_ended(&self) -> bool {
        *self.shared.stopped.borrow()
    }
}
