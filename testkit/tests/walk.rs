//! Tests that the program for walk-throughs fails if a document is wrong.

use std::process::Command;

use leasehold_testkit::{Local, folder};

const TRUE: &str = "- It is free\nGET /v1/locks/a\n= 200 {\"held\": false}\n";
const FALSE: &str = "- It is held\nGET /v1/locks/a\n= 200 {\"held\": true}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentence_that_is_not_so_fails_the_walk() {
    let (local, folder) = (Local::ephemeral().await, folder());
    for (text, code, said) in [
        (TRUE.to_owned(), 0, "1 sentences, all as the documents say"),
        (format!("{TRUE}{FALSE}"), 1, "1 of 2 sentences are not so"),
        ("= 200\n".to_owned(), 2, "walk: "),
    ] {
        let file = folder.path().join("a.txt");
        std::fs::write(&file, &text).expect("a file");
        let mut walk = Command::new(env!("CARGO_BIN_EXE_walk"));
        let walk = walk.arg(local.address.to_string()).arg(&file).output().expect("a program");
        let words = String::from_utf8_lossy(&[walk.stdout, walk.stderr].concat()).into_owned();
        assert_eq!(walk.status.code(), Some(code), "{text}: {words}");
        assert!(words.contains(said), "{text}: {words}");
    }
}
