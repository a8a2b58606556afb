//! Feeds random input to the server as requests and as journal records. Nothing may panic, and no request may cause a
//! server error.
//!
//! The requests are those in `corpus/`, with some bytes changed. `PROPTEST_CASES=1000000` makes a long run. A failing
//! input is shrunk, printed and kept in a file.

mod random;

use std::time::Duration;

use leasehold_base::clock::Moment;
use leasehold_store::{Head, Record};
use leasehold_testkit::Bare;
use proptest::collection::vec;
use proptest::prelude::*;

/// Number of cases per target, unless the environment overrides it.
const CASES: u32 = 20_000;
/// How long to wait for a response.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// Returns the requests of the corpus as text: method and target, headers, an empty line, the body.
fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/storage/fuzz/corpus");
    let files = std::fs::read_dir(folder).expect("the corpus");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

/// Changes some bytes of a text. Four bytes of `how` describe each change.
fn mutate(text: &mut Vec<u8>, how: &[u8]) {
    for change in how.chunks_exact(4).take(6) {
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % text.len().max(1);
        match change[0] % 5 {
            0 => text.insert(at.min(text.len()), change[3]),
            1 if !text.is_empty() => drop(text.remove(at)),
            2 if !text.is_empty() => text[at] = change[3],
            3 => {
                let n = usize::from(change[3]);
                let again = text[at..(at + n).min(text.len())].to_vec();
                text.splice(at..at, again);
            }
            _ => {
                let digits = b"0123456789.-+eE%{}[]\",:&=/hms";
                text.insert(at.min(text.len()), digits[usize::from(change[3]) % digits.len()]);
            }
        }
    }
}

fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    let is_set = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig { cases: if is_set { default.cases } else { CASES }, ..default }
}

#[test]
fn no_request_is_the_servers_fault() {
    let (server, corpus) = (Bare::new(), corpus());
    let n_requests = std::cell::Cell::new(0);
    proptest!(cases(), |(which in any::<usize>(), how in vec(any::<u8>(), 0..25))| {
        let mut text = corpus[which % corpus.len()].clone();
        mutate(&mut text, &how);
        // A request that waits for something is one, too.
        n_requests.set(n_requests.get() + u32::from(Bare::is_request(&text)));
        if let Some(status) = server.ask(&text, WAIT_MAX) {
            prop_assert!(!status.is_server_error(), "{status}: {}", String::from_utf8_lossy(&text));
        }
    });
    let n_tried = cases().cases;
    assert!(n_requests.get() > n_tried / 4, "{} of {n_tried} were requests", n_requests.get());
}

#[test]
fn the_corpus_is_what_the_server_understands() {
    let server = Bare::new();
    for text in corpus() {
        let status = server
            .ask(&text, Duration::from_secs(60))
            .expect("a request, and an answer at once")
            .as_u16();
        let text = String::from_utf8_lossy(&text);
        assert!(
            !matches!(status, 404 | 405 | 415) || text.contains("/claims/1"),
            "{status}: {text}"
        );
    }
}

#[test]
fn no_bytes_are_a_record_that_cannot_be_written_again() {
    let empty = Record::encode(&Head::default(), Moment::default(), &[]);
    // The whole record except the number of changes and the checksum.
    let head = &empty[..empty.len() - 5];
    proptest!(cases(), |(input in vec(any::<u8>(), 0..200), n_changes in 0..5_u8, tag in 0..24_u8)| {
        let _ = Record::decode(&input);
        // A valid version, count, tag and checksum let the input get further.
        let mut bytes = [head, &[n_changes, tag], &input].concat();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        if let Ok(record) = Record::decode(&bytes) {
            let head = record.head.clone().unwrap_or_default();
            let again = Record::encode(&head, record.moment, &record.changes);
            prop_assert_eq!(Record::decode(&again), Ok(record));
        }
    });
}
