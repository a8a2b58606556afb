//! Parses Server-Sent Events from bytes to messages.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::Error;

/// Time without any data after which the connection counts as broken. The server sends at least a comment every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Maximum size of a line, and of the data of an event. Real ones are far smaller.
const LINE_BYTES_MAX: usize = 1 << 20;

/// An open stream of messages.
#[derive(Debug)]
pub(crate) struct Messages {
    stream: Incoming,
    parser: Parser,
}

impl Messages {
    pub(crate) fn of(stream: Incoming) -> Self {
        Self { stream, parser: Parser::default() }
    }

    /// Returns the messages that the next piece of the stream completes, often none. Dropping the future loses no
    /// message.
    pub(crate) async fn read(&mut self) -> Result<Vec<Message>, Error> {
        let broken = |why: &str| Error::Broken(why.into());
        let frame = tokio::time::timeout(SILENCE_MAX, self.stream.frame()).await;
        let frame = frame.map_err(|_| broken("the server fell silent"))?;
        let frame = frame.ok_or_else(|| broken("the server ended the stream"))?;
        let frame = frame.map_err(|error| Error::Broken(error.to_string()))?;
        self.parser.push(frame.data_ref().map_or(&[], |data| data))
    }
}

/// Assembles lines into messages.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    message: Message,
}

/// One event of the stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) event: String,
    pub(crate) id: String,
    pub(crate) data: String,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Message>, Error> {
        let too_long = || Err(Error::Broken("an event is too long".into()));
        let mut messages = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                if self.line.len() >= LINE_BYTES_MAX {
                    return too_long();
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
                if self.message.data.len() > LINE_BYTES_MAX {
                    return too_long();
                }
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
    fn a_line_without_an_end_is_not_buffered_indefinitely() {
        let mut parser = Parser::default();
        assert!(parser.push(&vec![b'x'; LINE_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn an_event_without_an_end_is_not_buffered_indefinitely() {
        let (mut parser, piece) = (Parser::default(), format!("data: {}\n", "x".repeat(1 << 16)));
        let n = (0..100).take_while(|_| parser.push(piece.as_bytes()).is_ok()).count();
        assert_eq!(n, 16, "1 MiB");
    }
}
