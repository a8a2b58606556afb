//! Is a connection doing anything?

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

/// Requests in progress on one connection.
pub(super) struct Activity {
    state: Mutex<State>,
}

struct State {
    n_requests: usize,
    n_served: usize,
    idle_since: Instant,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        let state = State { n_requests: 0, n_served: 0, idle_since: Instant::now() };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// A request has begun; it lasts until its whole answer is written.
    pub(super) fn begin(self: &Arc<Self>) -> InProgress {
        self.change(|state| state.n_requests += 1);
        InProgress(self.clone())
    }

    /// Since when nothing is in progress, and whether anything ever was. `None`: something is.
    pub(super) fn idle_since(&self) -> Option<(Instant, bool)> {
        self.change(|state| {
            (state.n_requests == 0).then_some((state.idle_since, state.n_served > 0))
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request in progress.
pub(super) struct InProgress(Arc<Activity>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.n_requests -= 1;
            state.n_served += 1;
            state.idle_since = Instant::now();
        });
    }
}

/// A body that keeps its request in progress until it is written, or given up.
pub(super) struct Tracked {
    pub(super) body: Body,
    pub(super) _request: InProgress,
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
