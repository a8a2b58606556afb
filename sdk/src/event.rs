//! Streams lock events as they happen.

use std::collections::VecDeque;

use leasehold_api::{Event, Gap};

use crate::call::query_string;
use crate::sse::{Message, Messages};
use crate::{Client, Error, EventStream, Retry, random};

/// An item that a watcher receives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Watched {
    /// A lock event.
    Event {
        /// The id to resume after: see [`Events::since`].
        id: String,
        /// The event itself.
        event: Event,
    },
    /// Some events were missed. Read the state of the locks you care about, then continue.
    Gap(Gap),
    /// The server cannot reach its store, so events can be late from here on. None is missing.
    Stale {
        /// A description for people.
        reason: String,
    },
    /// The server reaches its store again. Late events were delivered, or follow immediately.
    Current {
        /// A description for people.
        reason: String,
    },
}

/// A stream of events that continues across broken connections and server restarts.
///
/// Whenever events might have been missed, it returns a [`Watched::Gap`]. While its server cannot reach the store, it
/// returns a [`Watched::Stale`].
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

    /// Resumes after the event with this id, instead of starting now.
    #[must_use]
    pub fn since(mut self, id: impl Into<String>) -> Self {
        self.last_id = Some(id.into());
        self
    }

    /// Connects now, so that no event from here on is missed. Otherwise the first [`next`](Self::next) connects.
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

    /// Converts this into a `Stream`.
    pub fn into_stream(self) -> EventStream {
        EventStream::new(self)
    }

    /// Waits for the next event. Returns an error if the server does not allow watching, or stays unreachable for as
    /// many tries as [`Retry::default`] allows; calling again retries. Dropping the future loses no event.
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

    /// Connects if needed, and reads the next piece of the stream.
    async fn read(&mut self) -> Result<(), Error> {
        self.connect().await?;
        // Connecting can itself queue an item.
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
