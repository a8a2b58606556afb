//! Runs the targets of `fuzz/` with random bytes, for as many cases as a test run has time for.

use leasehold_server::dialect::redis::frame::Reader;
use leasehold_testkit::Bare;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{WAIT_MAX, cases};

/// Parts of requests, so that random bytes pass the first check.
const WORDS: &[&str] = &[
    "/v1/locks/a/acquire",
    "/v1/claims/?wait=",
    "/lock?client=a&ttl=",
    "/leases/acquire",
    "/v1/events?after=",
    "/files/a%20b?lock=",
    "/documents/../x",
    "{\"owner_id\":\"a\",\"ttl_ms\":",
    "{\"resource\":\"r\",\"timeout\":",
    "1h2m3.5s",
    "-1e999",
];
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

#[test]
fn no_random_request_is_the_servers_fault() {
    let server = Bare::new();
    let word = || (0..WORDS.len()).prop_map(|n| WORDS[n].as_bytes());
    let bytes = || vec(any::<u8>(), 0..60);
    proptest!(cases(), |(method in 0..METHODS.len(), first in word(), a in bytes(), second in word(), b in bytes())| {
        let head = b"\nhost: a\ncontent-type: application/json\n\n";
        let text = [METHODS[method].as_bytes(), b" ", first, &a, head, second, &b].concat();
        for text in [&text, &a] {
            let is_fault = server.ask(text, WAIT_MAX).is_some_and(|status| status.is_server_error());
            prop_assert!(!is_fault, "{}", String::from_utf8_lossy(text));
        }
    });
}

/// Maximum bytes of a Redis command in this test.
const COMMAND_BYTES_MAX: usize = 256;

#[test]
fn a_redis_command_reads_the_same_however_it_is_cut() {
    proptest!(cases(), |(piece in 1..8_usize, input in vec(any::<u8>(), 0..120))| {
        // A valid start lets the input get further.
        let good = [&b"*2\r\n$4\r\nPING\r\n$"[..], &input].concat();
        for bytes in [&input, &good] {
            prop_assert_eq!(commands(bytes, piece), commands(bytes, bytes.len().max(1)));
        }
    });
}

/// Returns the commands in these bytes, and whether something invalid follows them. The reader gets `piece` bytes at a
/// time.
fn commands(bytes: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, bool) {
    let (mut reader, mut commands) = (Reader::new(COMMAND_BYTES_MAX), Vec::new());
    for piece in bytes.chunks(piece) {
        reader.buffer.extend_from_slice(piece);
        loop {
            match reader.next_request() {
                Ok(Some(request)) => {
                    let words: Vec<_> = request.words().map(<[u8]>::to_vec).collect();
                    assert!(words.iter().map(Vec::len).sum::<usize>() <= COMMAND_BYTES_MAX);
                    commands.push(words);
                }
                Ok(None) => break,
                Err(_) => return (commands, true),
            }
        }
        assert!(reader.buffer.len() <= COMMAND_BYTES_MAX + piece.len() + 2);
    }
    (commands, false)
}
