//! The engine without its thread: whoever drives it says when each round begins. For the simulation.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use super::writer::Writer;
use super::{EngineHandle, Options, load};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::store::{self, Store};

/// An engine that stands still between two rounds.
pub struct Stepped(Writer, Arc<Shared>);

impl Stepped {
    /// Loads the store, as [`super::Engine::start`] does.
    pub fn start(
        options: Options,
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, EngineHandle), store::Error> {
        let (writer, handle, shared) = load(options, store, clock, metrics)?;
        Ok((Self(writer, shared), handle))
    }

    /// How long the thread would wait for the next round if nobody asked anything more.
    pub fn patience(&self) -> Duration {
        if self.1.n_asked() > 0 { Duration::ZERO } else { self.0.patience() }
    }

    /// One round with what has been asked so far. `false`: it is time to stop.
    pub fn round(&mut self) -> Result<bool, store::Error> {
        self.0.round()
    }

    /// The end of the thread, with how its rounds ended.
    pub fn end(self, result: Result<(), store::Error>) -> Result<(), store::Error> {
        self.0.end(result)
    }
}
