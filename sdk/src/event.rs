//! What happens to locks, as it happens.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use leasehold_api::{Event, Gap};

use crate::call::query_string;
use crate::{Client, Error, EventStream, Retry, random};

/// The server says something at least every 15 s, if only a comment.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Far more than any event.
const LINE_BYTES_MAX: usize = 1 << 20;

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
}

/// A stream of events that goes on over broken connections and restarts of the server.
///
/// Whenever it cannot be sure to have told everything, it says so by a [`Watched::Gap`].
#[derive(Debug)]
pub struct Events {
    client: Client,
    prefix: String,
    last_id: Option<String>,
    stream: Option<Incoming>,
    was_connected: bool,
    parser: Parser,
    ready: VecDeque<Result<Watched, Error>>,
    n_failures: u32,
}

impl Events {
    pub(crate) fn new(client: Client, prefix: String) -> Self {
        Self {
            client,
            prefix,
            last_id: None,
            stream: None,
            was_connected: false,
            parser: Parser::default(),
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
        if self.stream.is_some() {
            return Ok(());
        }
        let prefix = Some(self.prefix.as_str()).filter(|prefix| !prefix.is_empty());
        let query = query_string(&[("prefix", prefix)]);
        let path = format!("{}/events{query}", self.client.namespace_path());
        let transport = &self.client.inner.transport;
        self.stream = Some(transport.stream(&path, self.last_id.as_deref()).await?);
        self.parser = Parser::default();
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
            self.stream = None;
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
        let Some(stream) = self.stream.as_mut().filter(|_| self.ready.is_empty()) else {
            return Ok(());
        };
        let broken = |why: &str| Error::Broken(why.into());
        let frame = tokio::time::timeout(SILENCE_MAX, stream.frame()).await;
        let frame = frame.map_err(|_| broken("the server fell silent"))?;
        let frame = frame.ok_or_else(|| broken("the server ended the stream"))?;
        let frame = frame.map_err(|error| Error::Broken(error.to_string()))?;
        self.n_failures = 0;
        for message in self.parser.push(frame.data_ref().map_or(&[], |data| data))? {
            if !message.id.is_empty() {
                self.last_id = Some(message.id.clone());
            }
            self.ready.push_back(message.read());
        }
        Ok(())
    }
}

/// Lines to messages.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    message: Message,
}

/// One event of the stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Message {
    event: String,
    id: String,
    data: String,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Message>, Error> {
        let mut messages = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                if self.line.len() >= LINE_BYTES_MAX {
                    return Err(Error::Broken("an event is too long".into()));
                }
                self.line.push(*byte);
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).into_owned();
            self.line.clear();
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                let message = std::mem::take(&mut self.message);
                messages.extend(Some(message).filter(|message| !message.data.is_empty()));
            } else {
                self.message.take(line);
            }
        }
        Ok(messages)
    }
}

impl Message {
    fn take(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event = value.into(),
            "id" => self.id = value.into(),
            "data" => self.data.push_str(value),
            _ => {}
        }
    }

    fn read(self) -> Result<Watched, Error> {
        let watched = match self.event.as_str() {
            "gap" => serde_json::from_str(&self.data).map(Watched::Gap),
            _ => {
                serde_json::from_str(&self.data).map(|event| Watched::Event { id: self.id, event })
            }
        };
        watched.map_err(|_| Error::Foreign { status: 200, body: self.data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_come_in_any_pieces() {
        let text = b": hello\n\nid: 1-2\r\nevent: granted\r\ndata: {}\r\n\r\ndata:x\nid:3\n\n";
        for n in 1..text.len() {
            let mut parser = Parser::default();
            let pieces = text.chunks(n).flat_map(|piece| parser.push(piece).unwrap());
            let said: Vec<_> = pieces.map(|m| (m.event, m.id, m.data)).collect();
            let first = ("granted".into(), "1-2".into(), "{}".into());
            assert_eq!(said, [first, (String::new(), "3".into(), "x".into())], "in pieces of {n}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let mut parser = Parser::default();
        assert!(parser.push(&vec![b'x'; LINE_BYTES_MAX + 1]).is_err());
    }
}
