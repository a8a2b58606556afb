//! Tests that files cannot exceed their quota or fill the disk.

use hyper::Method;
use leasehold_testkit::{Local, Response, json, settings};

struct Home {
    local: Local,
    session: String,
}

impl Home {
    async fn start(quota: u64, free_min: Option<u64>) -> Self {
        let mut settings = settings(None);
        settings.dialect.files.quota = quota;
        settings.dialect.files.free_space_min = free_min;
        let local = Local::start(settings).await;
        let opened = local.client.post("/auth/session", json!({})).await.unwrap();
        Self { local, session: format!("Bearer {}", opened.text_of("sessionId")) }
    }

    async fn send(&self, method: Method, path: &str, n_bytes: usize) -> Response {
        let headers = [("authorization", self.session.as_str())];
        self.local.client.send_with(method, path, &headers, vec![b'x'; n_bytes]).await.unwrap()
    }

    async fn put(&self, path: &str, n_bytes: usize) -> Response {
        self.send(Method::PUT, path, n_bytes).await
    }
}

#[tokio::test]
async fn all_files_together_have_a_quota() {
    let home = Home::start(1000, Some(0)).await;
    assert_eq!(home.put("/a", 600).await.status, 201);
    let refused = home.put("/b", 401).await;
    assert_eq!(refused.status, 507, "{refused:?}");
    let why = refused.text_of("message");
    assert!(why.contains("1000 bytes (files-quota)") && why.contains("take 600"), "{why}");
    assert_eq!(home.put("/b", 400).await.status, 201, "just enough");
    assert_eq!(crate::bounds::metric(&home.local, "leasehold_files_bytes").await, 1000);
    // Replacing a file with a smaller one frees space, and so does a removal.
    assert_eq!(home.send(Method::DELETE, "/b", 0).await.status, 204);
    assert_eq!(home.put("/a", 100).await.status, 200);
    assert_eq!(crate::bounds::metric(&home.local, "leasehold_files_bytes").await, 100);
    assert_eq!(home.put("/c", 900).await.status, 201);
    let lock = home.local.client.acquire("l", "a", 1000, json!({})).await;
    assert_eq!(lock.status, 200, "locks need no room for files");
}

#[tokio::test]
async fn uploads_leave_some_of_the_disk_free() {
    let home = Home::start(u64::MAX, Some(u64::MAX / 2)).await;
    for (method, path) in [(Method::PUT, "/a"), (Method::POST, "/folder/")] {
        let refused = home.send(method, path, 1).await;
        assert_eq!(refused.status, 507, "{refused:?}");
        assert!(refused.text_of("message").contains("(free-space-min)"), "{refused:?}");
    }
    assert_eq!(home.local.client.acquire("l", "a", 1000, json!({})).await.status, 200);
}

/// Existing files count toward the quota after a restart.
#[tokio::test]
async fn a_restart_counts_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("deep/er")).unwrap();
    std::fs::write(folder.path().join("deep/er/old"), vec![b'x'; 700]).unwrap();
    let mut settings = settings(None);
    settings.files = Some(folder.path().into());
    (settings.dialect.files.quota, settings.dialect.files.free_space_min) = (1000, Some(0));
    let local = Local::start(settings).await;
    let opened = local.client.post("/auth/session", json!({})).await.unwrap();
    let home = Home { local, session: format!("Bearer {}", opened.text_of("sessionId")) };
    assert_eq!(home.put("/new", 301).await.status, 507);
    assert_eq!(home.put("/new", 300).await.status, 201);
    assert_eq!(home.send(Method::DELETE, "/deep/er/old", 0).await.status, 204);
    assert_eq!(home.put("/newer", 700).await.status, 201);
}

/// Starts a server with a folder and a file, and returns the statuses of five requests that work on them: two copies, a
/// move of a file, and a move and a removal of a folder.
async fn on_trees(set: impl FnOnce(&mut leasehold_server::http::Options)) -> (Local, [u16; 5]) {
    let mut settings = settings(None);
    settings.dialect.files.free_space_min = Some(0);
    settings.http.connections_per_peer_exempt = [].into();
    set(&mut settings.http);
    let local = Local::start(settings).await;
    let send = async |line: &str, to: &str| {
        let (method, path) = line.split_once(' ').unwrap();
        let headers = [("destination", to)];
        let headers = if to.is_empty() { &[][..] } else { &headers[..] };
        let sent = local.client.send_with(method.parse().unwrap(), path, headers, "").await;
        let sent = sent.unwrap();
        if matches!(sent.status, 429 | 503) {
            assert_eq!(sent.headers["retry-after"], "1");
            assert!(sent.text.contains("limit: ") && sent.text.contains("tree-operations-max)"));
        }
        sent.status
    };
    for line in ["MKCOL /dav/box", "PUT /dav/box/f", "PUT /dav/f"] {
        assert_eq!(send(line, "").await, 201, "{line}");
    }
    let copied = [send("COPY /dav/f", "/dav/g").await, send("COPY /dav/box", "/dav/copy").await];
    let moved = [send("MOVE /dav/f", "/dav/h").await, send("MOVE /dav/box", "/dav/moved").await];
    let is_moved = local.client.get("/dav/moved/f").await.status == 200;
    let gone = send(if is_moved { "DELETE /dav/moved" } else { "DELETE /dav/box" }, "").await;
    (local, [copied[0], copied[1], moved[0], moved[1], gone])
}

#[tokio::test]
async fn copies_and_whole_folders_have_a_limit_and_one_address_has_a_share() {
    let (local, done) = on_trees(|http| {
        (http.tree_operations_max, http.principal_tree_operations_max) = (1, 1);
    })
    .await;
    assert_eq!(done, [201, 201, 201, 201, 204], "one after the other");
    assert_eq!(crate::bounds::metric(&local, "leasehold_tree_operations").await, 0);
    let (local, done) = on_trees(|http| http.principal_tree_operations_max = 0).await;
    assert_eq!(done, [429, 429, 201, 429, 429]);
    let refusals = "leasehold_limit_refusals_total{limit=\"principal-tree-operations-max\"}";
    assert_eq!(crate::bounds::metric(&local, refusals).await, 4);
    let (local, done) = on_trees(|http| http.tree_operations_max = 0).await;
    assert_eq!(done, [503, 503, 201, 503, 503]);
    let refusals = "leasehold_limit_refusals_total{limit=\"tree-operations-max\"}";
    assert_eq!(crate::bounds::metric(&local, refusals).await, 4);
}

#[tokio::test]
async fn an_upload_for_which_no_file_can_be_opened_is_told_to_come_again() {
    let mut settings = settings(None);
    settings.http.uploads_max = 0;
    let local = Local::start(settings).await;
    let opened = local.client.post("/auth/session", json!({})).await.unwrap();
    let session = format!("Bearer {}", opened.text_of("sessionId"));
    let of_session = [("authorization", session.as_str())];
    let object = format!("/lfs/repo/objects/{}", "0".repeat(64));
    for (method, path, headers) in [
        (Method::PUT, "/a", &of_session[..]),
        (Method::PUT, "/dav/a", &[]),
        (Method::POST, "/terraform/prod", &[]),
        (Method::PUT, object.as_str(), &[]),
    ] {
        let sent = local.client.send_with(method, path, headers, b"x".to_vec());
        let refused = sent.await.unwrap();
        assert_eq!(refused.status, 503, "{path}: {refused:?}");
        assert!(refused.text.contains("LimitNOFILE"), "{path}: {refused:?}");
    }
    let refusals = "leasehold_limit_refusals_total{limit=\"uploads\"}";
    assert_eq!(crate::bounds::metric(&local, refusals).await, 4);
    assert_eq!(local.client.acquire("l", "a", 1000, json!({})).await.status, 200);
}
