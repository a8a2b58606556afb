//! Events as a `Stream`.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::{Error, Events, Watched};

type Next = Pin<Box<dyn Future<Output = (Events, Result<Watched, Error>)> + Send>>;

/// A stream of the results of [`Events::next`], for the combinators of `futures` and `tokio-stream`. It never ends.
pub struct EventStream {
    next: Next,
}

impl EventStream {
    pub(crate) fn new(events: Events) -> Self {
        Self { next: next(events) }
    }
}

fn next(mut events: Events) -> Next {
    Box::pin(async move {
        let watched = events.next().await;
        (events, watched)
    })
}

impl Stream for EventStream {
    type Item = Result<Watched, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Poll::Ready((events, watched)) = self.next.as_mut().poll(context) else {
            return Poll::Pending;
        };
        self.next = next(events);
        Poll::Ready(Some(watched))
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}
