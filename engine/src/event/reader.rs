//! A reader of events.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::bell::NO_BELL;
use super::missed::Missed;
use super::topic::{Found, Topic};
use super::{Bell, EventLog, Interest};
use leasehold_store::Event;

/// Follows a topic from a given event on.
pub struct Reader {
    log: Arc<EventLog>,
    interest: Interest,
    topic: Arc<Topic>,
    number: u64,
    bell: usize,
    position: u64,
    gap: Option<String>,
    missed: Option<Missed>,
}

/// The next item for a reader.
#[derive(Debug)]
pub enum Next {
    /// An event.
    Event(Arc<Event>),
    /// Events might be missing. Contains the reason.
    Gap(String),
}

impl Reader {
    pub(super) fn new(
        log: Arc<EventLog>,
        interest: Interest,
        topic: Arc<Topic>,
        bell: Option<&Bell>,
        gap: Option<&'static str>,
        missed: Option<Missed>,
    ) -> Self {
        let (number, position) = topic.enter();
        let bell = bell.map_or(NO_BELL, |bell| bell.number);
        let gap = gap.map(str::to_owned);
        Self { log, interest, topic, number, bell, position, gap, missed }
    }

    /// Waits for the next item.
    pub async fn next(&mut self) -> Next {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Does the same as [`Reader::next`], for streams.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if let Some(gap) = self.gap.take() {
            return Poll::Ready(Next::Gap(gap));
        }
        if let Some(missed) = &mut self.missed {
            if let Some(next) = missed.next(&self.log, &self.interest) {
                return Poll::Ready(next);
            }
            self.missed = None;
        }
        match self.topic.find(self.position, self.bell, self.number, context.waker()) {
            Found::Event(event) => {
                self.position += 1;
                Poll::Ready(Next::Event(event))
            }
            Found::Missed(n) => {
                self.position += n;
                Poll::Ready(Next::Gap(format!("too slow: {n} events missed")))
            }
            Found::Nothing => Poll::Pending,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.topic.forget(self.bell, self.number);
        self.log.leave(&self.interest, &self.topic);
    }
}
