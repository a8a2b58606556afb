//! Tests of `/admin/locks`.

use hyper::Method;
use leasehold_testkit::json;

use crate::doors::files::{Home, check, check_refused};

#[tokio::test]
async fn all_file_locks_are_listed_for_all_holders() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.lock(&editor, "/a", "acquire").await;
    let native = json!({"owner_id": "robot", "ttl_ms": 60_000});
    let path = "/v1/namespaces/files/locks/%2Fb/acquire";
    assert_eq!(home.local.client.post(path, native).await.expect("an answer").status, 200);
    let listed = home.get("/admin/locks").await;
    let lock = |path: &str, by: &str, expires_at: u64| {
        json!({"path": path, "lockedBy": by, "lockedAt": 1_736_726_400_000_u64,
               "expiresAt": expires_at})
    };
    let body = json!({
        "locks": [
            lock("/a", &editor.shown(), 1_736_728_200_000),
            lock("/b", "robot", 1_736_726_460_000),
        ],
        "nextCursor": null, "hasMore": false,
    });
    check(&listed, 200, body);
}

#[tokio::test]
async fn a_list_of_locks_comes_in_pages() {
    let home = Home::start().await;
    let editor = home.editor().await;
    for n in 0..5 {
        home.lock(&editor, &format!("/f{n}"), "acquire").await;
    }
    let mut n_seen = 0;
    let mut query = String::from("limit=2");
    loop {
        let page = home.get(&format!("/admin/locks?{query}")).await;
        n_seen += page.get("locks").as_array().expect("a list").len();
        if page.get("hasMore") == &json!(false) {
            break;
        }
        query = format!("limit=2&cursor={}", page.text_of("nextCursor"));
    }
    assert_eq!(n_seen, 5);
    for query in ["limit=0", "cursor=x", "cursor=-1", "other=1"] {
        assert_eq!(home.get(&format!("/admin/locks?{query}")).await.status, 400, "{query}");
    }
}

#[tokio::test]
async fn an_admin_can_take_a_lock_away() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.lock(&editor, "/a%20b", "acquire").await;
    let revoked = home.send(None, Method::DELETE, "/admin/locks/a%20b", "").await;
    check(&revoked, 200, json!({"message": "Lock revoked", "path": "/a b"}));
    check_refused(&home.lock(&editor, "/a%20b", "release").await, 404, "No lock found");
    assert_eq!(home.put(&other, "/a%20b", "x").await.status, 201);
    let again = home.send(None, Method::DELETE, "/admin/locks/a%20b", "").await;
    check_refused(&again, 404, "No lock found");
}
