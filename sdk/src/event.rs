//! What happens to locks, as it happens.

use std::collections::VecDeque;

use leasehold_api::{Event, Gap};

use crate::call::query_string;
use crate::sse::{Message, Messages};
use crate::{Client, Error, EventStream, Retry, random};

/// Something a watcher is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Watched {
    /// Something happened to a lock.
    Event {
        /// Where to go on: see [`Events::since`].
        id: String,
        /// What.
        event: Event,
    },
    /// Something happened that this watcher will not be told. Look at the locks you care about, and go on.
    Gap(Gap),
    /// The server cannot reach its store, so events can be late from here on. None is missing.
    Stale {
        /// In words.
        reason: String,
    },
    /// The server reaches its store again: what was late has been told or follows at once.
    Current {
        /// In words.
        reason: String,
    },
}

/// A stream of events that goes on over broken connections and restarts of the server.
///
/// Whenever it cannot be sure to have told everything, it says so by a [`Watched::Gap`]; while its server is cut off
/// from the store, by a [`Watched::Stale`].
#[derive(Debug)]
pub struct Events {
    client: Client,
    prefix: String,
    last_id: Option<String>,
    messages: Option<Messages>,
    was_connected: bool,
    ready: VecDeque<Result<Watched, Error>>,
    n_failures: u32,
}

impl Events {
    pub(crate) fn new(client: Client, prefix: String) -> Self {
        Self {
            client,
            prefix,
            last_id: None,
            messages: None,
            was_connected: false,
            ready: VecDeque::new(),
            n_failures: 0,
        }
    }

    /// Goes on after the event with this id instead of beginning now.
    #[must_use]
    pub fn since(mut self, id: impl Into<String>) -> Self {
        self.last_id = Some(id.into());
        self
    }

    /// Connects, so that nothing that happens from here on is missed. Otherwise [`next`](Self::next) does.
    pub async fn connect(&mut self) -> Result<(), Error> {
        if self.messages.is_some() {
            return Ok(());
        }
        let prefix = Some(self.prefix.as_str()).filter(|prefix| !prefix.is_empty());
        let query = query_string(&[("prefix", prefix)]);
        let path = format!("{}/events{query}", self.client.namespace_path());
        let transport = &self.client.inner.transport;
        let stream = transport.events(&path, self.last_id.as_deref()).await?;
        self.messages = Some(Messages::of(stream));
        if self.was_connected && self.last_id.is_none() {
            let reason = "the connection broke before the first event".into();
            self.ready.push_back(Ok(Watched::Gap(Gap { reason })));
        }
        self.was_connected = true;
        Ok(())
    }

    /// The same as a `Stream`.
    pub fn into_stream(self) -> EventStream {
        EventStream::new(self)
    }

    /// The next event, whenever it comes. An error is returned when the server cannot be reached for as often as
    /// [`Retry::default`] says, or does not let us watch; calling again tries again. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Watched, Error> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return ready;
            }
            let Err(error) = self.read().await else { continue };
            self.messages = None;
            let retry = Retry::default();
            self.n_failures += 1;
            if !error.is_retryable() || self.n_failures >= retry.attempts_max {
                self.n_failures = 0;
                return Err(error);
            }
            let doubled = 1 << (self.n_failures - 1);
            let pause = retry.pause_min.saturating_mul(doubled).min(retry.pause_max);
            tokio::time::sleep(random::jittered(pause)).await;
        }
    }

    /// One more piece of the stream.
    async fn read(&mut self) -> Result<(), Error> {
        self.connect().await?;
        // Connecting may itself have something to tell.
        let Some(messages) = self.messages.as_mut().filter(|_| self.ready.is_empty()) else {
            return Ok(());
        };
        let messages = messages.read().await?;
        self.n_failures = 0;
        for message in messages {
            if !message.id.is_empty() {
                self.last_id = Some(message.id.clone());
            }
            self.ready.push_back(watched(message));
        }
        Ok(())
    }
}

fn watched(message: Message) -> Result<Watched, Error> {
    let Message { event, id, data } = message;
    let watched = match event.as_str() {
        "gap" => serde_json::from_str(&data).map(Watched::Gap),
        "stale" => serde_json::from_str(&data).map(|Gap { reason }| Watched::Stale { reason }),
        "current" => serde_json::from_str(&data).map(|Gap { reason }| Watched::Current { reason }),
        _ => serde_json::from_str(&data).map(|event| Watched::Event { id, event }),
    };
    watched.map_err(|_| Error::Foreign { status: 200, body: data })
}
