//! How much is being answered at once: long lists, and streams that have no end. Each has a budget of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::Options;
use super::pieces::PIECE_BYTES;

/// What one long answer takes up at most: a piece that is being made, one on its way, and what its connection has not
/// sent yet.
const LONG_BYTES: usize = 4 * PIECE_BYTES;

/// Shared by all threads.
pub struct Answers {
    long: Arc<Semaphore>,
    n_long_max: usize,
    streams: Arc<Semaphore>,
    n_streams_max: usize,
    patience: Duration,
}

/// An answer that is being sent. Dropped with it.
pub(crate) struct Sending {
    _permit: OwnedSemaphorePermit,
    /// How long its reader may take nothing.
    pub(super) patience: Duration,
}

/// Too much is being answered already. Nothing was done.
#[derive(Debug)]
pub(crate) struct TooMuch(String);

impl Answers {
    pub(crate) fn new(options: &Options) -> Self {
        let n_long_max = (options.answers_bytes_max / LONG_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let n_streams_max = options.event_streams_max.min(Semaphore::MAX_PERMITS);
        Self {
            long: Arc::new(Semaphore::new(n_long_max)),
            n_long_max,
            streams: Arc::new(Semaphore::new(n_streams_max)),
            n_streams_max,
            patience: options.answer_timeout,
        }
    }

    /// One more answer that is sent in pieces.
    pub(crate) fn long(&self) -> Result<Sending, TooMuch> {
        self.begin(&self.long).map_err(|_| {
            let allowed = self.n_long_max * LONG_BYTES;
            TooMuch(format!(
                "too many long answers are being sent: {allowed} bytes allowed (answers-bytes-max); the \
                 request had no effect, repeat it"
            ))
        })
    }

    /// One more stream of events.
    pub(crate) fn stream(&self) -> Result<Sending, TooMuch> {
        self.begin(&self.streams).map_err(|_| {
            let allowed = self.n_streams_max;
            TooMuch(format!(
                "too many streams of events: {allowed} allowed (event-streams-max); the request had no effect, repeat \
                 it"
            ))
        })
    }

    fn begin(&self, places: &Arc<Semaphore>) -> Result<Sending, TryAcquireError> {
        let permit = places.clone().try_acquire_owned()?;
        Ok(Sending { _permit: permit, patience: self.patience })
    }

    /// Bytes that long answers may take up right now.
    pub(crate) fn n_long_bytes(&self) -> usize {
        (self.n_long_max - self.long.available_permits()) * LONG_BYTES
    }

    /// Streams of events right now.
    pub(crate) fn n_streams(&self) -> usize {
        self.n_streams_max - self.streams.available_permits()
    }
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
