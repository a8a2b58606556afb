//! Requests in RESP, the Redis protocol: arrays of bulk strings, as every client sends them, or a line of words, as
//! people type them. The server has its own small parser because it needs only this part of the protocol, and must
//! not accept more bytes than configured.
//!
//! A web page can make a browser send such lines too, but only after the first line of an HTTP request, and that line
//! ends the connection.

use std::fmt;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Maximum size of the head of an array or a bulk string: a sign, a number, and the end of the line.
const HEAD_BYTES_MAX: usize = 16;

/// Limits for a request before authentication, in bytes and words: enough for a token.
const STRANGER_BYTES_MAX: usize = 16 * 1024;
const STRANGER_WORDS_MAX: usize = 16;

/// Parses requests out of the received bytes, however they are split into packets. It does not scan any byte twice.
#[derive(Debug)]
pub struct Reader {
    /// The received bytes that are not part of a complete request yet.
    pub buffer: BytesMut,
    bytes_max: usize,
    /// Whether the client has not authenticated yet, so that smaller limits apply.
    pub is_of_stranger: bool,
    /// How far the buffer has been parsed.
    at: usize,
    /// The number of words in the request, once its head is parsed.
    n_words: Option<usize>,
    words: Vec<Range<usize>>,
    /// The length of the next word, once its head is parsed.
    next: Option<usize>,
}

/// A request: the name of a command and its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    bytes: Bytes,
    words: Vec<Range<usize>>,
}

impl Request {
    /// Returns the command's name and arguments.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().map(|word| &self.bytes[word.clone()])
    }
}

/// A protocol error. The bytes after it cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERR Protocol error: {}", self.0)
    }
}

impl Reader {
    /// Creates a reader that rejects requests of more than this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let (buffer, words) = (BytesMut::new(), Vec::new());
        Self { buffer, bytes_max, is_of_stranger: false, at: 0, n_words: None, words, next: None }
    }

    /// Returns the next request, or `None` if it is not complete yet.
    pub fn next_request(&mut self) -> Result<Option<Request>, Wrong> {
        loop {
            if self.n_words.is_none() && self.buffer.first().is_some_and(|first| *first != b'*') {
                let Some(words) = self.line()? else { return Ok(None) };
                let bytes = self.buffer.split_to(self.at).freeze();
                self.at = 0;
                // An empty line is not a request.
                if words.is_empty() {
                    continue;
                }
                return Ok(Some(Request { bytes, words }));
            }
            let Some(n_words) = self.n_words else {
                let Some(n) = self.head(b'*', "an array of bulk strings")? else { return Ok(None) };
                // An empty array is not a request.
                self.n_words = usize::try_from(n).ok().filter(|n| *n > 0);
                match self.n_words {
                    // Each word takes at least the bytes of its head.
                    Some(n) if n > self.bytes_max() => return Err(self.too_long()),
                    Some(n) if self.is_of_stranger && n > STRANGER_WORDS_MAX => {
                        return Err(Wrong(format!(
                            "a command can have at most {STRANGER_WORDS_MAX} words before AUTH"
                        )));
                    }
                    Some(_) => {}
                    None => self.take(),
                }
                continue;
            };
            if self.words.len() == n_words {
                let words = std::mem::take(&mut self.words);
                let bytes = self.buffer.split_to(self.at).freeze();
                (self.at, self.n_words) = (0, None);
                return Ok(Some(Request { bytes, words }));
            }
            if !self.next_word()? {
                return Ok(None);
            }
        }
    }

    /// Parses the words of a line, if the line is complete, and moves past it.
    fn line(&mut self) -> Result<Option<Vec<Range<usize>>>, Wrong> {
        let first = self.buffer[0];
        if !(first.is_ascii_graphic() || first.is_ascii_whitespace()) {
            let first = first.escape_ascii();
            return Err(Wrong(format!("expected '*' or a line of words, got '{first}'")));
        }
        let end = self.buffer[self.at..].iter().position(|byte| *byte == b'\n');
        let end = end.map_or(self.buffer.len(), |end| self.at + end);
        if end > self.bytes_max() {
            return Err(self.too_long());
        }
        // Bytes that were scanned are not scanned again.
        self.at = end;
        if end == self.buffer.len() {
            return Ok(None);
        }
        self.at += 1;
        let line = &self.buffer[..end];
        let words = words(line)?;
        let is_http = |word: &Range<usize>| {
            let word = &line[word.clone()];
            word.starts_with(b"HTTP/") || word.eq_ignore_ascii_case(b"host:")
        };
        match words.iter().any(is_http) {
            true => Err(Wrong("this is HTTP; use the port of --listen".into())),
            false => Ok(Some(words)),
        }
    }

    /// Parses the next word. Returns whether it is complete.
    fn next_word(&mut self) -> Result<bool, Wrong> {
        let length = match self.next {
            Some(length) => length,
            None => {
                let Some(n) = self.head(b'$', "a bulk string")? else { return Ok(false) };
                let negative = |_| Wrong(format!("a bulk string cannot have {n} bytes"));
                *self.next.insert(usize::try_from(n).map_err(negative)?)
            }
        };
        if self.at.saturating_add(length) > self.bytes_max() {
            return Err(self.too_long());
        }
        let end = self.at + length;
        let Some(ending) = self.buffer.get(end..end + 2) else { return Ok(false) };
        if ending != b"\r\n" {
            return Err(Wrong("a bulk string is longer than its length".into()));
        }
        self.words.push(self.at..end);
        (self.at, self.next) = (end + 2, None);
        Ok(true)
    }

    /// Parses the number in the next head, if the head is complete.
    fn head(&mut self, sign: u8, what: &str) -> Result<Option<i64>, Wrong> {
        let rest = &self.buffer[self.at..];
        match rest.first() {
            None => return Ok(None),
            Some(first) if *first == sign => {}
            Some(first) => {
                let (sign, first) = (char::from(sign), first.escape_ascii());
                return Err(Wrong(format!("expected '{sign}' ({what}), got '{first}'")));
            }
        }
        let Some(end) = rest.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n') else {
            return if rest.len() < HEAD_BYTES_MAX { Ok(None) } else { Err(no_number()) };
        };
        let digits = rest[1..end].strip_suffix(b"\r").and_then(|line| str::from_utf8(line).ok());
        let digits = digits.filter(|digits| !digits.starts_with('+'));
        let number = digits.and_then(|digits| digits.parse().ok()).ok_or_else(no_number)?;
        self.at += end + 1;
        if self.at > self.bytes_max() {
            return Err(self.too_long());
        }
        Ok(Some(number))
    }

    fn take(&mut self) {
        drop(self.buffer.split_to(self.at));
        self.at = 0;
    }

    fn bytes_max(&self) -> usize {
        match self.is_of_stranger {
            true => self.bytes_max.min(STRANGER_BYTES_MAX),
            false => self.bytes_max,
        }
    }

    fn too_long(&self) -> Wrong {
        let n_max = self.bytes_max();
        Wrong(match n_max < self.bytes_max {
            true => format!("a command can have at most {n_max} bytes before AUTH"),
            false => format!("a command can have at most {n_max} bytes (redis-command-bytes-max)"),
        })
    }
}

/// Splits a line into words. Text in quotes is one word; there are no escapes.
fn words(line: &[u8]) -> Result<Vec<Range<usize>>, Wrong> {
    let (mut words, mut at) = (Vec::new(), 0);
    while let Some(n_blank) = line[at..].iter().position(|byte| !byte.is_ascii_whitespace()) {
        at += n_blank;
        let quote = Some(line[at]).filter(|byte| matches!(byte, b'"' | b'\''));
        at += usize::from(quote.is_some());
        let is_end = |byte: &u8| match quote {
            Some(quote) => *byte == quote,
            None => byte.is_ascii_whitespace(),
        };
        let end = line[at..].iter().position(is_end).map(|n| at + n);
        match (end, quote) {
            (None, Some(_)) => return Err(Wrong("unbalanced quotes in a line".into())),
            (end, _) => words.push(at..end.unwrap_or(line.len())),
        }
        at = (end.unwrap_or(line.len()) + usize::from(quote.is_some())).min(line.len());
        if quote.is_some() && line.get(at).is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return Err(Wrong("unbalanced quotes in a line".into()));
        }
    }
    Ok(words)
}

fn no_number() -> Wrong {
    Wrong("the length of an array or a bulk string is not a number".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 64;

    /// Returns the requests and the error that the reader parses from bytes that arrive in pieces of this size.
    fn read(bytes: &[u8], piece: usize) -> (Vec<Vec<String>>, Option<String>) {
        let (mut reader, mut requests) = (Reader::new(BYTES_MAX), Vec::new());
        for piece in bytes.chunks(piece) {
            reader.buffer.extend_from_slice(piece);
            loop {
                match reader.next_request() {
                    Ok(None) => break,
                    Ok(Some(request)) => {
                        let text = |word| String::from_utf8_lossy(word).into_owned();
                        requests.push(request.words().map(text).collect());
                    }
                    Err(wrong) => return (requests, Some(wrong.to_string())),
                }
            }
        }
        (requests, None)
    }

    #[track_caller]
    fn check(bytes: &str, expected: &[&[&str]], wrong: Option<&str>) {
        for piece in 1..=bytes.len() {
            let (requests, why) = read(bytes.as_bytes(), piece);
            assert_eq!(requests, expected, "in pieces of {piece}");
            assert_eq!(why.as_deref(), wrong, "in pieces of {piece}");
        }
    }

    #[test]
    fn requests_are_read_however_they_are_cut() {
        check("*1\r\n$4\r\nPING\r\n", &[&["PING"]], None);
        check(
            "*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$2\r\n\r\n\r\n",
            &[&["GET", ""], &["\r\n"]],
            None,
        );
        check("*0\r\n*-1\r\n*1\r\n$1\r\na\r\n*1\r\n$5\r\nun", &[&["a"]], None);
    }

    #[test]
    fn a_line_of_words_is_a_request() {
        check("PING\r\n", &[&["PING"]], None);
        check("\r\n\n  \nGET  a\t\n", &[&["GET", "a"]], None);
        check(
            "GET 'a b' \"\" x\n*1\r\n$1\r\na\r\nQUIT\n",
            &[&["GET", "a b", "", "x"], &["a"], &["QUIT"]],
            None,
        );
        check("SET a b N", &[], None);
    }

    #[test]
    fn a_protocol_error_is_reported_and_ends_the_input() {
        let number = "ERR Protocol error: the length of an array or a bulk string is not a number";
        check("*x\r\n", &[], Some(number));
        check("*+1\r\n", &[], Some(number));
        check("*1\n$1\r\na\r\n", &[], Some(number));
        check("*1111111111111111111111\r\n", &[], Some(number));
        let binary = "ERR Protocol error: expected '*' or a line of words, got '\\x16'";
        check("\u{16}\u{3}\u{1}", &[], Some(binary));
        let http = "ERR Protocol error: this is HTTP; use the port of --listen";
        check("GET / HTTP/1.1\r\nSET a b NX\r\n", &[], Some(http));
        check("Host: localhost\r\n", &[], Some(http));
        let quotes = "ERR Protocol error: unbalanced quotes in a line";
        check("GET \"a\r\n", &[], Some(quotes));
        check("GET \"a\"b\r\n", &[], Some(quotes));
        let bulk = "ERR Protocol error: expected '$' (a bulk string), got ':'";
        check("*1\r\n$1\r\na\r\n*1\r\n:1\r\n", &[&["a"]], Some(bulk));
        let longer = "ERR Protocol error: a bulk string is longer than its length";
        check("*1\r\n$1\r\nabc\r\n", &[], Some(longer));
        let negative = "ERR Protocol error: a bulk string cannot have -1 bytes";
        check("*1\r\n$-1\r\n", &[], Some(negative));
    }

    #[test]
    fn the_size_of_a_request_is_limited() {
        let long =
            "ERR Protocol error: a command can have at most 64 bytes (redis-command-bytes-max)";
        check("*1\r\n$57\r\n", &[], Some(long));
        check("*65\r\n", &[], Some(long));
        check("*2\r\n$50\r\n", &[], None);
        check(&format!("*20\r\n{}", "$0\r\n\r\n".repeat(20)), &[], Some(long));
        check(&"a".repeat(65), &[], Some(long));
        let just = format!("*1\r\n$55\r\n{}\r\n", "a".repeat(55));
        assert_eq!(read(just.as_bytes(), 7).1, None);
    }
}
