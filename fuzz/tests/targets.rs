//! The targets. A test run tries each for a few seconds; `cargo bolero test request` lets a fuzzer that watches which
//! code is reached look for as long as you like.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use leasehold_base::clock::Moment;
use leasehold_fuzz::Bare;
use leasehold_server::dialect::redis::frame::Reader;
use leasehold_store::{Head, Record};

const TEST_TIME: Duration = Duration::from_secs(5);
/// How long an answer may take that waits for something.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// Parts of requests, so that what is drawn at random gets past the first look.
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

#[test]
fn request() {
    // A server that panicked is not asked again.
    let server = AssertUnwindSafe(Bare::new());
    bolero::check!().with_test_time(TEST_TIME).for_each(|input: &[u8]| {
        let (choice, rest) = input.split_at(input.len().min(2));
        let word = |n: usize| choice.get(n).map_or("", |at| WORDS[usize::from(*at) % WORDS.len()]);
        let method = ["GET", "POST", "PUT", "PATCH", "DELETE"][input.len() % 5];
        let half = rest.len() / 2;
        let text = [
            method.as_bytes(),
            b" ",
            word(0).as_bytes(),
            &rest[..half],
            b"\nhost: a\ncontent-type: application/json\n\n",
            word(1).as_bytes(),
            &rest[half..],
        ]
        .concat();
        for text in [&text[..], input] {
            let is_fault =
                server.ask(text, WAIT_MAX).is_some_and(|status| status.is_server_error());
            assert!(!is_fault, "{}", String::from_utf8_lossy(text));
        }
    });
}

#[test]
fn record() {
    let empty = Record::encode(&Head::default(), Moment::default(), &[]);
    // All but the number of changes and the checksum.
    let head = &empty[..empty.len() - 5];
    bolero::check!().with_test_time(TEST_TIME).for_each(|input: &[u8]| {
        let _ = Record::decode(input);
        // With a good version and checksum it gets further.
        let mut bytes = [head, input].concat();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        if let Ok(record) = Record::decode(&bytes) {
            let head = record.head.clone().unwrap_or_default();
            let again = Record::encode(&head, record.moment, &record.changes);
            assert_eq!(Record::decode(&again), Ok(record));
        }
    });
}

/// Most bytes of a command.
const COMMAND_BYTES_MAX: usize = 256;

/// What a client of Redis sends is read the same however it is cut, and never takes more room than it may.
#[test]
fn command() {
    bolero::check!().with_test_time(TEST_TIME).for_each(|input: &[u8]| {
        let (choice, rest) = input.split_at(input.len().min(1));
        let piece = 1 + usize::from(choice.first().copied().unwrap_or_default()) % 7;
        // A good head gets further.
        let good = [&b"*2\r\n$4\r\nPING\r\n$"[..], rest].concat();
        for bytes in [rest, &good] {
            assert_eq!(commands(bytes, piece), commands(bytes, bytes.len().max(1)));
        }
    });
}

/// The commands in these bytes, and whether something else follows them.
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
