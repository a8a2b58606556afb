//! Refuses HTTP/1 heads that another program could read differently: `Content-Length` together with
//! `Transfer-Encoding`, a line that ends without a carriage return (also after the last chunk of a body), and a target
//! with `#`.
//!
//! The parser silently accepts such heads: it drops one of the two headers, and everything after `#`. So this module
//! follows the bytes on their way to the parser, from head to body to the next head. Instead of a head that is refused,
//! the parser gets bytes that no head contains. It answers 400 and closes the connection. At bytes that the parser
//! refuses itself, this module stops following, because the parser closes the connection.

use std::io::BufRead;

/// Bytes that no head contains, after which the parser does not wait for more.
const POISON: &[u8] = b"\0\r\n\r\n";
/// The first bytes of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";
/// Maximum bytes of an incomplete line that are kept: enough for a header name and a length.
const LINE_BYTES_MAX: usize = 128;

/// The position of a connection in its requests.
#[derive(Debug)]
pub(super) struct Heads {
    state: HeadState,
    /// The incomplete line of a head.
    unfinished: Unfinished,
    is_first_request: bool,
}

/// The part of a request to which the next byte belongs.
#[derive(Debug)]
enum HeadState {
    /// A head, with what is known of it so far.
    Head(Head),
    /// A body, with this many bytes left.
    Body(u64),
    /// The size of a chunk, as far as it is read; `None` before its first digit.
    Size(Option<u64>),
    /// The rest of the line after the size of a chunk.
    Extension(u64),
    /// The line feed of that line.
    SizeEnd(u64),
    /// A chunk, with this many bytes left.
    Chunk(u64),
    /// The end of a chunk; `true` after its first byte.
    ChunkEnd(bool),
    /// A line after the last chunk, with the position in it.
    Trailer(Trailer),
    /// Not followed any more: it is not HTTP/1, or the parser fails.
    Lost,
    /// The parser got this many bytes of [`POISON`].
    Poisoned(usize),
}

/// A position in the lines after the last chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trailer {
    /// At the beginning of a line.
    Begin,
    /// In a line that is not empty.
    Inside,
    /// In a line that is not empty, after its carriage return.
    InsideEnd,
    /// In the empty line, after its carriage return.
    End,
}

/// The facts about a head read so far.
#[derive(Default, Debug)]
struct Head {
    /// The request line was read.
    has_target: bool,
    n_bytes: Option<u64>,
    is_chunked: bool,
}

impl Heads {
    pub(super) fn new() -> Self {
        let state = HeadState::Head(Head::default());
        Self { state, unfinished: Unfinished::default(), is_first_request: true }
    }

    /// Follows received bytes. Returns how many of them the parser gets. If these are not all, the parser gets the
    /// [poison](Self::poison) next.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() {
            let is_good = match &self.state {
                HeadState::Head(_) => self.read_line(&mut rest),
                HeadState::Body(_) | HeadState::Chunk(_) => self.skip(&mut rest),
                HeadState::Lost => return bytes.len(),
                HeadState::Poisoned(_) => return 0,
                // The parser would take it for the end of a line.
                HeadState::Trailer(Trailer::Begin | Trailer::Inside) if rest[0] == b'\n' => {
                    rest = &rest[1..];
                    false
                }
                _ => {
                    self.state = self.step(rest[0]);
                    rest = &rest[1..];
                    true
                }
            };
            if !is_good {
                self.state = HeadState::Poisoned(0);
                return bytes.len() - rest.len() - 1;
            }
        }
        bytes.len()
    }

    /// Returns what the parser gets instead of received bytes, at most `n_max` bytes; `None` if the head is not
    /// refused.
    pub(super) fn poison(&mut self, n_max: usize) -> Option<&'static [u8]> {
        let HeadState::Poisoned(n_given) = &mut self.state else { return None };
        let rest = &POISON[*n_given..];
        let piece = &rest[..rest.len().min(n_max)];
        *n_given += piece.len();
        Some(piece)
    }

    /// Reads to the end of a line of a head; `false` if the head is refused at the last byte read.
    fn read_line(&mut self, rest: &mut &[u8]) -> bool {
        let all = *rest;
        // Reading from memory cannot fail.
        let n = rest.skip_until(b'\n').unwrap_or(0);
        let piece = &all[..n];
        if piece.last() != Some(&b'\n') {
            self.unfinished.add(piece);
            return true;
        }
        let unfinished = (!self.unfinished.start.is_empty()).then(|| {
            let mut unfinished = std::mem::take(&mut self.unfinished);
            unfinished.add(piece);
            unfinished
        });
        let line = unfinished.as_ref().map_or_else(|| HeadLine::of(piece), Unfinished::line);
        let HeadState::Head(head) = &mut self.state else { return true };
        if !head.has_target && self.is_first_request && line.start == PREFACE {
            self.state = HeadState::Lost;
            return true;
        }
        let Some(line) = line.without_end() else { return false };
        match head.read(line) {
            Read::Refused => return false,
            Read::Failed => self.state = HeadState::Lost,
            Read::More => {}
            Read::Over => {
                self.is_first_request = false;
                self.state = match (head.is_chunked, head.n_bytes) {
                    (true, _) => HeadState::Size(None),
                    (false, None | Some(0)) => HeadState::Head(Head::default()),
                    (false, Some(n)) => HeadState::Body(n),
                };
            }
        }
        true
    }

    /// Skips bytes of a body or chunk.
    fn skip(&mut self, rest: &mut &[u8]) -> bool {
        let (HeadState::Body(n_left) | HeadState::Chunk(n_left)) = &mut self.state else {
            return true;
        };
        let n = usize::try_from(*n_left).unwrap_or(usize::MAX).min(rest.len());
        *rest = &rest[n..];
        *n_left -= n as u64;
        if *n_left == 0 {
            let is_chunk = matches!(self.state, HeadState::Chunk(_));
            self.state = if is_chunk {
                HeadState::ChunkEnd(false)
            } else {
                HeadState::Head(Head::default())
            };
        }
        true
    }

    /// Reads one byte between chunks. Bytes at which the parser fails are not followed further.
    fn step(&self, byte: u8) -> HeadState {
        match (&self.state, byte) {
            (HeadState::Size(n), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).map(u64::from);
                let size = n.unwrap_or(0).checked_mul(16).zip(digit);
                let size = size.and_then(|(size, digit)| size.checked_add(digit));
                size.map_or(HeadState::Lost, |size| HeadState::Size(Some(size)))
            }
            (HeadState::Size(Some(n)) | HeadState::Extension(n), b'\r') => HeadState::SizeEnd(*n),
            (HeadState::Size(Some(n)), b'\t' | b' ' | b';') => HeadState::Extension(*n),
            (HeadState::Extension(_), b'\n') => HeadState::Lost,
            (HeadState::Extension(n), _) => HeadState::Extension(*n),
            (HeadState::SizeEnd(0), b'\n') => HeadState::Trailer(Trailer::Begin),
            (HeadState::SizeEnd(n), b'\n') => HeadState::Chunk(*n),
            (HeadState::ChunkEnd(false), b'\r') => HeadState::ChunkEnd(true),
            (HeadState::ChunkEnd(true), b'\n') => HeadState::Size(None),
            (HeadState::Trailer(Trailer::Begin), b'\r') => HeadState::Trailer(Trailer::End),
            (HeadState::Trailer(Trailer::Begin), _) => HeadState::Trailer(Trailer::Inside),
            (HeadState::Trailer(Trailer::Inside), b'\r') => HeadState::Trailer(Trailer::InsideEnd),
            (HeadState::Trailer(Trailer::Inside), _) => HeadState::Trailer(Trailer::Inside),
            (HeadState::Trailer(Trailer::InsideEnd), b'\n') => HeadState::Trailer(Trailer::Begin),
            (HeadState::Trailer(Trailer::End), b'\n') => HeadState::Head(Head::default()),
            _ => HeadState::Lost,
        }
    }
}

/// The part of an incomplete line that is kept. The parser has the whole line already.
#[derive(Default, Debug)]
struct Unfinished {
    start: Vec<u8>,
    is_cut: bool,
    has_hash: bool,
    end: [u8; 2],
}

/// A line of a head, or what is kept of it.
#[derive(Clone, Copy)]
struct HeadLine<'a> {
    start: &'a [u8],
    is_cut: bool,
    /// There is a `#` behind the start.
    has_hash: bool,
    end: [u8; 2],
}

impl Unfinished {
    fn add(&mut self, piece: &[u8]) {
        let n_kept = piece.len().min(LINE_BYTES_MAX - self.start.len());
        self.start.extend_from_slice(&piece[..n_kept]);
        self.is_cut |= n_kept < piece.len();
        self.has_hash |= piece[n_kept..].contains(&b'#');
        for byte in &piece[piece.len().saturating_sub(2)..] {
            self.end = [self.end[1], *byte];
        }
    }

    fn line(&self) -> HeadLine<'_> {
        let Self { start, is_cut, has_hash, end } = self;
        HeadLine { start, is_cut: *is_cut, has_hash: *has_hash, end: *end }
    }
}

impl<'a> HeadLine<'a> {
    fn of(whole: &'a [u8]) -> Self {
        let end = whole.last_chunk().copied().unwrap_or_default();
        Self { start: whole, is_cut: false, has_hash: false, end }
    }

    /// The line without its line end; `None` if it does not end as it must.
    fn without_end(self) -> Option<Self> {
        let start = match self.start.strip_suffix(b"\r\n") {
            Some(start) if !self.is_cut => start,
            _ => self.start,
        };
        (self.end == *b"\r\n").then_some(Self { start, ..self })
    }
}

/// The result of reading a line of a head.
enum Read {
    More,
    Over,
    /// Two programs could read the head differently.
    Refused,
    /// The parser fails at this line.
    Failed,
}

impl Head {
    /// Reads a line, given without its line end.
    fn read(&mut self, line: HeadLine<'_>) -> Read {
        let HeadLine { start: line, is_cut, has_hash, .. } = line;
        if !self.has_target {
            // Empty lines before a request are skipped.
            self.has_target = !line.is_empty();
            let has_hash = has_hash || line.contains(&b'#');
            return if has_hash { Read::Refused } else { Read::More };
        }
        // Most header names begin with another letter.
        match line.first() {
            None => return Read::Over,
            Some(b'c' | b'C' | b't' | b'T') => {}
            Some(_) => return Read::More,
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
            return if self.n_bytes.is_some() { Read::Refused } else { Read::More };
        }
        if !name.eq_ignore_ascii_case(b"content-length") {
            return Read::More;
        }
        if self.is_chunked || is_cut {
            return Read::Refused;
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let n = str::from_utf8(value).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
        // Two lengths that differ, or one that is not a number.
        if n.is_none() || self.n_bytes.is_some_and(|before| Some(before) != n) {
            return Read::Failed;
        }
        self.n_bytes = n;
        Read::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the parser gets of bytes that arrive in pieces of this size; `None` if it gets all of them.
    fn kept(text: &str, n_piece: usize) -> Option<String> {
        let (mut heads, mut kept) = (Heads::new(), String::new());
        for piece in text.as_bytes().chunks(n_piece) {
            let n = heads.follow(piece);
            kept += str::from_utf8(&piece[..n]).expect("text");
        }
        let mut is_poisoned = false;
        while let Some(piece) = heads.poison(3).filter(|piece| !piece.is_empty()) {
            is_poisoned = true;
            kept += str::from_utf8(piece).expect("text");
        }
        (is_poisoned || kept != text).then_some(kept)
    }

    #[test]
    fn what_could_be_read_in_two_ways_never_reaches_the_parser() {
        for (text, before) in [
            ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a#b HTTP/1.1\r"),
            ("GET /a HTTP/1.1\nHost: a\r\n\r\n", "GET /a HTTP/1.1"),
            ("GET /a HTTP/1.1\r\nHost: a\n\n", "GET /a HTTP/1.1\r\nHost: a"),
            ("GET /a HTTP/1.1\r\nHost: a\r\n\n", "GET /a HTTP/1.1\r\nHost: a\r\n"),
            ("\nGET /a HTTP/1.1\r\n\r\n", ""),
            (
                "POST / HTTP/1.1\r\nContent-Length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
                "POST / HTTP/1.1\r\nContent-Length: 3\r\ntransfer-encoding: chunked\r",
            ),
            (
                "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\ncontent-LENGTH: 3\r\n\r\n",
                "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\ncontent-LENGTH: 3\r",
            ),
            // In the second of two requests, after a body of either kind.
            (
                "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n#\n\nGET /# HTTP/1.1\r\n\r\n",
                "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n#\n\nGET /# HTTP/1.1\r",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=#\r\n\n\n\r\n0\r\nT: u\r\n\r\nGET / X\n",
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=#\r\n\n\n\r\n0\r\nT: u\r\n\r\nGET / X",
            ),
            // After the last chunk.
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: u\nV: w\r\n\r\n",
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: u",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: u\r\n\nGET /b HTTP/1.1\r\n\r\n",
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: u\r\n",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\nT: u\r\n\r\n",
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            ),
        ] {
            for n_piece in [1, 2, 3, 7, 1000] {
                let expected = format!("{before}\0\r\n\r\n");
                assert_eq!(
                    kept(text, n_piece).as_deref(),
                    Some(&*expected),
                    "{text:?} by {n_piece}"
                );
            }
        }
    }

    /// The parser keeps an incomplete line, and its buffer is charged. This is no second copy.
    #[test]
    fn of_an_incomplete_line_only_the_beginning_is_kept() {
        for (begin, end, is_kept) in [
            ("GET /", " HTTP/1.1\r\n\r\n", true),
            ("GET /", "# HTTP/1.1\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nx: ", "\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nx: ", "\n\r\n", false),
            ("GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncookie: ", "\r\n\r\n0\r\n\r\n", true),
            ("GET / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: ", "\r\n\r\n", false),
            // No client sends a length in this form, and only its start is kept.
            ("GET / HTTP/1.1\r\ncontent-length: ", "\r\n\r\n", false),
        ] {
            for n_piece in [1, 100, 128, 4096] {
                let text = format!("{begin}{}{end}", "0".repeat(60_000));
                assert_eq!(kept(&text, n_piece).is_none(), is_kept, "{begin:?} by {n_piece}");
                let mut heads = Heads::new();
                for piece in text.as_bytes()[..60_000].chunks(n_piece) {
                    heads.follow(piece);
                }
                let n_bytes = heads.unfinished.start.capacity();
                assert!(n_bytes <= 2 * LINE_BYTES_MAX, "{begin:?} by {n_piece}: {n_bytes}");
            }
        }
    }

    #[test]
    fn everything_else_is_left_as_it_is() {
        let chunk = "1a\r\n".to_owned() + &"#\n".repeat(13) + "\r\n0\r\n\r\n";
        for text in [
            "GET /a HTTP/1.1\r\nHost: a\r\nX: #\r\n\r\nGET /b HTTP/1.1\r\n\r\n".to_owned(),
            "\r\n\r\nGET /a HTTP/1.1\r\n\r\n".into(),
            "PUT / HTTP/1.1\r\nContent-Length: 5\r\n\r\n#\n\r\n#GET /b HTTP/1.1\r\n\r\n".into(),
            "PUT / HTTP/1.1\r\nContent-Length:0\r\n\r\nGET /b HTTP/1.1\r\n\r\n".into(),
            "PUT / HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\n\nGET /b HTTP/1.1\r\n\r\n".into(),
            format!("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}GET /b HTTP/1.1\r\n\r\n"),
            format!("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\n#\n\n\n\n\r\n{chunk}"),
            // HTTP/2 has its own framing.
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\n#\n".into(),
            // The parser fails by itself, and nothing after it counts.
            "PUT / HTTP/1.1\r\nContent-Length: x\r\n\r\n\n#\n".into(),
            "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\n#\n".into(),
            "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n\n#\n".into(),
            "GET /a HTTP/1.1\r\nHost".into(),
        ] {
            for n_piece in [1, 2, 3, 7, 1000] {
                assert_eq!(kept(&text, n_piece), None, "{text:?} by {n_piece}");
            }
        }
    }
}
