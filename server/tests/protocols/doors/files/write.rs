//! Tests of writing and removing files.

use std::os::unix::fs::MetadataExt;

use hyper::Method;
use leasehold_testkit::{json, settings};

use crate::doors::files::{Home, check, check_locked, check_refused};

const HELLO_SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[tokio::test]
async fn a_put_says_what_was_written_and_where() {
    let home = Home::start().await;
    let editor = home.editor().await;
    for (status, created) in [(201, true), (200, false)] {
        let written = home.put(&editor, "/a%20b/h%C3%A9.txt", "hello").await;
        let timestamp = written.number("timestamp");
        let body = json!({
            "path": "/a b/hé.txt", "size": 5, "contentType": "text/plain",
            "hash": HELLO_SHA256, "timestamp": timestamp, "created": created,
        });
        check(&written, status, body);
        assert_eq!(written.headers["location"], "/a%20b/h%C3%A9.txt");
        let got = home.get("/a%20b/h%C3%A9.txt").await;
        assert_eq!(got.text, "hello");
        for header in ["etag", "last-modified"] {
            assert_eq!(got.headers[header], written.headers[header], "{header}");
        }
    }
}

#[tokio::test]
async fn every_content_has_its_own_etag() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let mut tags = Vec::new();
    for content in ["aaaa", "bbbb", "aaaa"] {
        tags.push(home.put(&editor, "/f", content).await.headers["etag"].clone());
    }
    tags.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
}

#[tokio::test]
async fn a_file_is_replaced_not_overwritten() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.put(&editor, "/f", "old").await;
    let before = std::fs::File::open(home.on_disk("f")).expect("the file");
    home.put(&editor, "/f", "new").await;
    let mut old = String::new();
    std::io::Read::read_to_string(&mut &before, &mut old).expect("its content");
    assert_eq!(old, "old");
    let inode = |file: &std::fs::File| file.metadata().expect("metadata").ino();
    let after = std::fs::File::open(home.on_disk("f")).expect("the file");
    assert_ne!(inode(&before), inode(&after));
}

#[tokio::test]
async fn an_empty_body_is_an_empty_file() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let written = home.put(&editor, "/empty", "").await;
    assert_eq!((written.status, written.number("size")), (201, 0));
    assert_eq!(home.content("/empty").await.as_deref(), Some(""));
}

#[tokio::test]
async fn a_file_is_what_it_is_said_to_be_or_what_its_name_says() {
    let home = Home::start().await;
    let editor = home.editor().await;
    for (path, said, kind) in [
        ("/page.html", None, "text/html"),
        ("/data", None, "application/octet-stream"),
        ("/data2", Some("application/json"), "application/json"),
        ("/notes.txt", Some("text/markdown; charset=utf-8"), "text/markdown; charset=utf-8"),
        ("/curl.txt", Some("application/x-www-form-urlencoded"), "text/plain"),
    ] {
        let said: Vec<_> = said.map(|said| ("content-type", said)).into_iter().collect();
        let written = home.send_with(Some(&editor), Method::PUT, path, &said, "x").await;
        assert_eq!(written.text_of("contentType"), kind, "{path}");
        assert_eq!(home.get(path).await.headers["content-type"], kind, "{path}");
    }
    let said = [("content-type", "nonsense")];
    let refused = home.send_with(Some(&editor), Method::PUT, "/f", &said, "x").await;
    check_refused(&refused, 400, "media type");
}

#[tokio::test]
async fn a_write_whose_condition_fails_changes_nothing() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    let tag = home.put(&editor, "/f", "old").await.headers["etag"].clone();
    let tag = tag.to_str().expect("text");
    let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (header, value) in [
        ("if-match", "\"other\""),
        ("if-none-match", "*"),
        ("if-none-match", tag),
        ("if-unmodified-since", long_ago),
    ] {
        for method in [Method::PUT, Method::DELETE] {
            let headers = [(header, value)];
            let sent = home.send_with(Some(&editor), method, "/f", &headers, "new");
            check_refused(&sent.await, 412, "Precondition failed");
        }
    }
    let headers = [("if-match", "*")];
    let refused = home.send_with(Some(&editor), Method::PUT, "/new", &headers, "x").await;
    check_refused(&refused, 412, "Precondition failed");
    assert_eq!(home.content("/f").await.as_deref(), Some("old"));
    assert_eq!(home.get("/new").await.status, 404);
    // The failed write did not keep the lock.
    let headers = [("if-match", tag)];
    let written = home.send_with(Some(&other), Method::PUT, "/f", &headers, "new").await;
    assert_eq!(written.status, 200);
}

#[tokio::test]
async fn a_failed_put_leaves_a_lock_that_was_taken_before() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.put(&editor, "/f", "old").await;
    home.lock(&editor, "/f", "acquire").await;
    let headers = [("if-none-match", "*")];
    let refused = home.send_with(Some(&editor), Method::PUT, "/f", &headers, "new").await;
    assert_eq!(refused.status, 412);
    check_locked(&home.put(&other, "/f", "theirs").await, &editor);
}

#[tokio::test]
async fn a_file_has_a_largest_size() {
    let mut small = settings(None);
    small.dialect.files.bytes_max = 10;
    let home = Home::with(small).await;
    let (editor, other) = (home.editor().await, home.editor().await);
    assert_eq!(home.put(&editor, "/f", "0123456789").await.status, 201);
    check_refused(&home.put(&editor, "/f", "0123456789a").await, 413, "at most 10 bytes");
    let chunked = format!(
        "PUT /f HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ntransfer-encoding: chunked\r\n\
         connection: close\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n",
        editor.id
    );
    let chunked = crate::doors::files::ugly::raw(&home, &chunked);
    assert!(chunked.await.starts_with("HTTP/1.1 413"));
    assert_eq!(home.content("/f").await.as_deref(), Some("0123456789"));
    assert_eq!(home.put(&other, "/f", "x").await.status, 200);
}

#[tokio::test]
async fn what_is_removed_is_gone_and_cannot_be_removed_again() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.put(&editor, "/f", "x").await;
    let removed = home.delete(&editor, "/f").await;
    assert_eq!((removed.status, removed.text.as_str()), (204, ""));
    check_refused(&home.get("/f").await, 404, "no such file");
    check_refused(&home.delete(&editor, "/f").await, 404, "no such file");
    assert_eq!(home.put(&other, "/f", "y").await.status, 201);
}

#[tokio::test]
async fn removing_a_file_leaves_a_lock_that_was_taken_before() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.put(&editor, "/f", "x").await;
    home.lock(&editor, "/f", "acquire").await;
    assert_eq!(home.delete(&editor, "/f").await.status, 204);
    check_locked(&home.put(&other, "/f", "theirs").await, &editor);
}

#[tokio::test]
async fn a_file_cannot_be_where_a_folder_is_nor_the_other_way_round() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.put(&editor, "/folder/file", "x").await;
    check_refused(&home.put(&editor, "/folder", "x").await, 409, "folder of this name");
    check_refused(&home.put(&editor, "/folder/file/x", "x").await, 409, "not a folder");
    check_refused(&home.put(&editor, "/folder/", "x").await, 400, "ends with /");
    check_refused(&home.put(&editor, "/", "x").await, 400, "ends with /");
    let headers = [("content-range", "bytes 0-0/5")];
    let refused = home.send_with(Some(&editor), Method::PUT, "/f", &headers, "x").await;
    check_refused(&refused, 400, "the whole file");
}

#[tokio::test]
async fn drafts_of_an_earlier_server_are_removed() {
    let home = Home::start().await;
    let Home { local, folder } = home;
    local.stop().await;
    let draft = folder.path().join(".leasehold/incoming/7");
    std::fs::write(&draft, "half").expect("a file");
    let again =
        leasehold_server::serve::Settings { files: Some(folder.path().into()), ..settings(None) };
    let _local = leasehold_testkit::Local::start(again).await;
    assert!(!draft.exists());
}
