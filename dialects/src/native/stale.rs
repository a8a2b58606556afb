//! The events `stale` and `current`, which inform clients that events can be late, and that they no longer are.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;

use leasehold_engine::EngineHandle;

/// Tracks which of the two events one client got last.
pub(super) struct Staleness {
    changes: WatchStream<bool>,
    is_told: bool,
}

impl Staleness {
    pub(super) fn of(engine: &EngineHandle) -> Self {
        Self { changes: WatchStream::new(engine.staleness()), is_told: false }
    }

    /// Returns the name and the reason of the next event.
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<(&'static str, &'static str)> {
        while let Some(is_stale) = std::task::ready!(Pin::new(&mut self.changes).poll_next(context))
        {
            if std::mem::replace(&mut self.is_told, is_stale) != is_stale {
                return Poll::Ready(if is_stale { STALE } else { CURRENT });
            }
        }
        Poll::Pending
    }
}

const STALE: (&str, &str) = (
    "stale",
    "this server cannot reach the store, so events can be late; none is skipped, and `current` follows",
);
const CURRENT: (&str, &str) = ("current", "this server can reach the store again");
