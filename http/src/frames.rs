//! Follows the frames that a client of HTTP/2 sends, to know since when the headers of a request are incomplete. The
//! HTTP library keeps incomplete headers to itself.

/// The first bytes of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The position of a connection in its frames.
#[derive(Debug)]
pub(super) struct Frames {
    state: FrameState,
    /// Whether the headers of a request have begun and are not complete.
    is_open: bool,
}

/// The part of a frame to which the next byte belongs.
#[derive(Debug)]
enum FrameState {
    /// The preface, of which this many bytes have come.
    Preface(usize),
    /// The head of a frame, of which this many bytes have come.
    Head([u8; FRAME_HEAD_BYTES], usize),
    /// The rest of a frame, with this many bytes left; `true` if it completes the headers of a request.
    Payload(usize, bool),
    /// Not followed: it is not HTTP/2.
    Lost,
}

/// The effect of received bytes on the headers of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Headers {
    /// Headers have begun and are not complete.
    pub(super) is_open: bool,
    /// Headers were completed.
    pub(super) has_ended: bool,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self { state: FrameState::Preface(0), is_open: false }
    }

    /// Follows received bytes; `None` if it is not HTTP/2.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Option<Headers> {
        let (mut rest, mut has_ended) = (bytes, false);
        loop {
            match &mut self.state {
                FrameState::Lost => return None,
                // A frame may end without another byte.
                FrameState::Payload(n_left, ends_headers) => {
                    let n = rest.len().min(*n_left);
                    rest = &rest[n..];
                    *n_left -= n;
                    if *n_left > 0 {
                        break;
                    }
                    if *ends_headers {
                        (self.is_open, has_ended) = (false, true);
                    }
                    self.state = FrameState::Head([0; FRAME_HEAD_BYTES], 0);
                }
                _ if rest.is_empty() => break,
                FrameState::Preface(n) => {
                    let n_more = rest.len().min(PREFACE.len() - *n);
                    if rest[..n_more] != PREFACE[*n..*n + n_more] {
                        self.state = FrameState::Lost;
                        return None;
                    }
                    rest = &rest[n_more..];
                    *n += n_more;
                    if *n == PREFACE.len() {
                        self.state = FrameState::Head([0; FRAME_HEAD_BYTES], 0);
                    }
                }
                FrameState::Head(head, n) => {
                    let n_more = rest.len().min(FRAME_HEAD_BYTES - *n);
                    head[*n..*n + n_more].copy_from_slice(&rest[..n_more]);
                    rest = &rest[n_more..];
                    *n += n_more;
                    if *n == FRAME_HEAD_BYTES {
                        let [a, b, c, kind, flags, ..] = *head;
                        let n_bytes = u32::from_be_bytes([0, a, b, c]) as usize;
                        let is_headers = matches!(kind, HEADERS | CONTINUATION);
                        self.is_open |= is_headers;
                        let ends_headers = is_headers && flags & END_HEADERS != 0;
                        self.state = FrameState::Payload(n_bytes, ends_headers);
                    }
                }
            }
        }
        Some(Headers { is_open: self.is_open, has_ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, n_bytes: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, n_bytes, kind, flags, 0, 0, 0, 1];
        frame.extend(vec![7; usize::from(n_bytes)]);
        frame
    }

    #[test]
    fn headers_are_incomplete_from_their_frame_to_the_last_continuation() {
        for n_piece in [1, 2, 3, 8, 1000] {
            let mut frames = Frames::new();
            for (bytes, is_open, has_ended) in [
                (PREFACE.to_vec(), false, false),
                (frame(4, 0, 6), false, false),
                (frame(HEADERS, END_HEADERS, 5), false, true),
                (frame(HEADERS, 0, 5), true, false),
                (frame(CONTINUATION, 0, 0), true, false),
                (frame(CONTINUATION, END_HEADERS, 0), false, true),
                (frame(0, 1, 20), false, false),
                (
                    [frame(HEADERS, END_HEADERS, 3), frame(HEADERS, 4, 9)[..12].into()].concat(),
                    true,
                    true,
                ),
            ] {
                let mut has_ended_so_far = false;
                let mut last = None;
                for piece in bytes.chunks(n_piece) {
                    last = frames.follow(piece);
                    has_ended_so_far |= last.is_some_and(|headers| headers.has_ended);
                }
                assert_eq!(last.map(|headers| headers.is_open), Some(is_open), "{bytes:?}");
                assert_eq!(has_ended_so_far, has_ended, "{bytes:?}");
            }
        }
        assert_eq!(Frames::new().follow(b"GET / HTTP/1.1\r\n"), None);
    }
}
