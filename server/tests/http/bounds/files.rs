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
