//! Tests of the shared leases that a lock on a file takes on its parent directories. They do not count against other
//! clients and are never shown.

use hyper::Method;
use leasehold_testkit::{json, settings};

use crate::doors::files::{Editor, Home};

impl Home {
    async fn metric(&self, name: &str) -> String {
        let text = self.get("/metrics").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    }

    async fn maintenance(&self, on: bool) {
        let body = json!({"on": on}).to_string();
        let headers = [("content-type", "application/json")];
        let path = "/v1/admin/maintenance";
        let set = self.send_with(None, Method::PUT, path, &headers, &body).await;
        assert_eq!(set.status, 200, "{set:?}");
    }

    async fn acquire(&self, editor: &Editor, path: &str) -> u16 {
        self.lock(editor, path, "acquire").await.status
    }
}

#[tokio::test]
async fn more_locks_are_held_in_a_folder_than_one_lock_can_have_holders() {
    let mut few = settings(None);
    few.engine.limits.holders_max = 2;
    let home = Home::with(few).await;
    let (one, other) = (home.editor().await, home.editor().await);
    for n in 0..5 {
        assert_eq!(home.acquire(&one, &format!("/d/f{n}")).await, 200, "{n}");
    }
    assert_eq!(home.put(&other, "/d/new", "x").await.status, 201);
    assert_eq!(home.put(&other, "/elsewhere", "x").await.status, 201);
    assert_eq!(home.delete(&other, "/d/new").await.status, 204);
    // Each lock still prevents the removal of the directory.
    assert_eq!(home.put(&other, "/d/new", "x").await.status, 201);
    assert_eq!(home.delete(&other, "/d").await.status, 423);
}

#[tokio::test]
async fn a_lock_on_a_name_where_nothing_is_locks_nothing_below_it() {
    let home = Home::start().await;
    let (one, other) = (home.editor().await, home.editor().await);
    assert_eq!(home.acquire(&one, "/team").await, 200);
    assert_eq!(home.put(&other, "/team", "x").await.status, 423);
    assert_eq!(home.put(&other, "/team/a", "x").await.status, 201);
    // `/team` is a directory now, but the lock on that name still covers nothing below it.
    assert_eq!(home.put(&other, "/team/b", "x").await.status, 201);
    assert_eq!(home.put(&other, "/team/in/c", "x").await.status, 201);
    assert_eq!(home.acquire(&other, "/team/d").await, 200);
    assert_eq!(home.delete(&other, "/team/a").await.status, 204);
    // The lock does not let its holder remove files that others have locked there.
    assert_eq!(home.delete(&one, "/team").await.status, 423);
}

#[tokio::test]
async fn a_lock_on_a_file_is_one_lock_wherever_locks_are_shown() {
    let home = Home::start().await;
    let editor = home.editor().await;
    assert_eq!(home.acquire(&editor, "/a/b/c/f").await, 200);
    assert_eq!(home.metric("locks_held").await, "1");
    assert_eq!(home.metric("leasehold_leases_held").await, "1");
    let locks = "/v1/namespaces/files/locks?state=held";
    let listed = home.get(locks).await;
    assert_eq!(listed.get("locks").as_array().map(Vec::len), Some(1), "{listed:?}");
    let page = home.get("/console").await.text;
    assert!(page.contains("/a/b/c/f") && !page.contains("/a/b/c/\""), "{page}");
    assert!(page.contains("<span class=\"figure\">1</span><span class=\"what\">Leases held"));
    let sessions = home.get("/v1/admin/sessions").await;
    assert_eq!(sessions.get("sessions")[0]["n_leases"], 1, "{sessions:?}");
    assert_eq!(home.put(&editor, "/a/b/c/f", "x").await.status, 201);
    assert_eq!(home.metric("locks_held").await, "0");
    let history = home.get("/v1/namespaces/files/history").await;
    let events = history.get("events").as_array().expect("events").clone();
    let told = |event: &leasehold_testkit::Value| {
        (event["lock_name"].to_string(), event["event"].to_string())
    };
    let told: Vec<_> = events.iter().map(told).collect();
    assert_eq!(told.len(), 2, "{history:?}");
    assert!(told.iter().all(|(name, _)| name == "\"/a/b/c/f\""), "{told:?}");
}

#[tokio::test]
async fn an_operator_is_told_of_one_lock_for_each_lock_on_a_file() {
    let home = Home::start().await;
    let editor = home.editor().await;
    assert_eq!(home.acquire(&editor, "/a/b/f").await, 200);
    let body = json!({"principal": "anonymous", "reason": "test"}).to_string();
    let headers = [("content-type", "application/json")];
    let revoked = home.send_with(None, Method::POST, "/v1/revoke", &headers, &body).await;
    assert_eq!(revoked.get("n_revoked"), &json!(1), "{revoked:?}");
    assert_eq!(revoked.get("revoked")[0]["lock_name"], "/a/b/f");
    assert_eq!(home.delete(&editor, "/a").await.status, 404);
    assert_eq!(home.metric("leasehold_namespace_leases{namespace=\"files\"}").await, "0");
}

#[tokio::test]
async fn in_maintenance_only_the_holder_of_a_lock_writes() {
    let home = Home::start().await;
    let (one, other) = (home.editor().await, home.editor().await);
    assert_eq!(home.put(&one, "/d/old", "1").await.status, 201);
    for path in ["/d/old", "/d/new", "/d/gone"] {
        assert_eq!(home.acquire(&one, path).await, 200);
    }
    home.maintenance(true).await;
    // In maintenance mode, held locks can be renewed and written under, whether or not the file exists.
    assert_eq!(home.acquire(&one, "/d/old").await, 200);
    assert_eq!(home.put(&one, "/d/old", "2").await.status, 200);
    assert_eq!(home.put(&one, "/d/new", "2").await.status, 201);
    assert_eq!(home.delete(&one, "/d/gone").await.status, 404);
    assert_eq!(home.content("/d/new").await.as_deref(), Some("2"));
    for (editor, path) in [(&other, "/d/x"), (&one, "/d/x"), (&other, "/d/old"), (&one, "/d/old")] {
        assert_eq!(home.put(editor, path, "3").await.status, 503, "{path}");
        assert_eq!(home.acquire(editor, path).await, 503, "{path}");
    }
    home.maintenance(false).await;
    assert_eq!(home.put(&other, "/d/x", "3").await.status, 201);
}
