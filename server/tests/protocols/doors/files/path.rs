//! Tests that no path can read or write anything outside the directory.

use std::os::unix::fs::symlink;

use hyper::Method;
use leasehold_testkit::json;

use crate::doors::files::{Home, check_refused};

#[tokio::test]
async fn a_path_that_leads_out_or_nowhere_is_refused() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let long = format!("/{}", "a".repeat(256));
    let deep = "/a".repeat(2049);
    for path in [
        "/../x",
        "/a/../../x",
        "/%2e%2e/x",
        "/a/%2e%2e%2f%2e%2e/x",
        "/..%2fx",
        "/./x",
        "/a//x",
        "/a%00b",
        "/a%0ab",
        "/a%1fb",
        "/a%7fb",
        "/%ff",
        "/a%zz",
        "/files/../x",
        "/files/%2e%2e/x",
        "/files//x",
        "/.leasehold/incoming/x",
        "/files/.leasehold/x",
        &long,
        &deep,
    ] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let refused = home.send(Some(&editor), method.clone(), path, "x").await;
            check_refused(&refused, 400, "path");
        }
        let query = format!("{path}?lock=acquire");
        check_refused(&home.send(Some(&editor), Method::POST, &query, "").await, 400, "path");
    }
    let listed = home.get("/").await;
    assert_eq!(listed.get("entries"), &json!([]));
}

#[tokio::test]
async fn a_symbolic_link_leads_nowhere() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let outside = leasehold_testkit::folder();
    std::fs::write(outside.path().join("secret"), "secret").expect("a file");
    home.put(&editor, "/inside/real", "real").await;
    symlink(outside.path().join("secret"), home.on_disk("file-link")).expect("a link");
    symlink(outside.path(), home.on_disk("folder-link")).expect("a link");
    symlink("inside", home.on_disk("inside-link")).expect("a link");
    for path in ["/file-link", "/folder-link/secret", "/folder-link/", "/inside-link/real"] {
        let got = home.get(path).await;
        assert_eq!(got.status, 404, "{path}: {got:?}");
    }
    for path in ["/folder-link/new", "/inside-link/new", "/folder-link/secret"] {
        check_refused(&home.put(&editor, path, "x").await, 409, "not a folder");
        assert_ne!(home.delete(&editor, path).await.status, 204, "{path}");
    }
    let made = home.send(Some(&editor), Method::POST, "/folder-link/new/", "").await;
    check_refused(&made, 409, "not a folder");
    // The server neither writes through a symbolic link nor replaces it.
    check_refused(&home.put(&editor, "/file-link", "ours").await, 409, "symbolic link");
    let secret = std::fs::read_to_string(outside.path().join("secret")).expect("the file");
    assert_eq!(secret, "secret");
    assert_eq!(std::fs::read_dir(outside.path()).expect("the folder").count(), 1);
    let listed = home.get("/").await;
    let paths: Vec<_> = listed
        .get("entries")
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["path"].clone())
        .collect();
    assert_eq!(paths, ["/inside/"]);
    assert!(home.on_disk("file-link").is_symlink());
}

#[tokio::test]
async fn a_pipe_is_no_file() {
    let home = Home::start().await;
    let made = std::process::Command::new("mkfifo").arg(home.on_disk("pipe")).status();
    assert!(made.expect("mkfifo").success());
    assert_eq!(home.get("/pipe").await.status, 404);
    assert_eq!(home.get("/").await.get("entries"), &json!([]));
}

#[tokio::test]
async fn reserved_names_are_never_files_at_the_root() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let reserved = [
        "v1",
        "lock",
        "locks",
        "leases",
        "auth",
        "admin",
        "files",
        "metrics",
        "livez",
        "readyz",
        "healthz",
        "health",
        "console",
        "openapi.json",
        "docs",
        "terraform",
        "lfs",
        "dav",
    ];
    for name in reserved {
        for path in [format!("/{name}/nothing/here"), format!("/{name}")] {
            let refused = home.put(&editor, &path, "x").await;
            // These paths name the same file through other prefixes.
            let is_file = path.starts_with("/files/") || path.starts_with("/dav/");
            let expected: &[u16] = if is_file { &[201, 204] } else { &[404, 405] };
            assert!(expected.contains(&refused.status), "{path}: {refused:?}");
        }
        // Below `/files` these are ordinary names.
        let path = format!("/files/{name}");
        let written = home.put(&editor, &path, name).await;
        assert_eq!(written.status, 201, "{path}");
        assert_eq!(written.text_of("path"), format!("/{name}"));
        assert_eq!(written.headers["location"], path.as_str());
        assert_eq!(home.content(&path).await.as_deref(), Some(name));
    }
    // Percent-encoding does not change that.
    assert_eq!(home.put(&editor, "/%76%31/x", "x").await.status, 404);
}

#[tokio::test]
async fn a_file_is_the_same_below_files_and_at_the_root() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.put(&editor, "/files/a/b", "x").await;
    assert_eq!(home.content("/a/b").await.as_deref(), Some("x"));
    home.lock(&editor, "/a/b", "acquire").await;
    assert_eq!(home.lock(&other, "/files/a/b", "acquire").await.status, 423);
    // An encoded slash is a slash. It must not name a second lock for the same file.
    assert_eq!(home.lock(&other, "/a%2Fb", "acquire").await.status, 423);
}

#[tokio::test]
async fn a_path_longer_than_a_locks_name_can_be_locked_too() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    let folder = "/0123456789".repeat(60);
    let (one, two) = (format!("{folder}/one"), format!("{folder}/two"));
    assert_eq!(home.put(&editor, &one, "x").await.status, 201);
    assert_eq!(home.lock(&editor, &one, "acquire").await.status, 200);
    assert_eq!(home.put(&other, &one, "x").await.status, 423);
    assert_eq!(home.put(&other, &two, "x").await.status, 201);
    let listed = home.get("/admin/locks").await;
    assert_eq!(listed.body["locks"][0]["path"], json!(one));
    assert_eq!(home.delete(&other, &format!("/admin/locks{one}")).await.status, 200);
    assert_eq!(home.put(&other, &one, "x").await.status, 200);
}
