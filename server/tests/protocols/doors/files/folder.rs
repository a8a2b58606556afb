//! Tests of directories.

use hyper::Method;
use leasehold_testkit::{Value, json};

use crate::doors::files::{Home, check, check_refused};

#[tokio::test]
async fn a_folder_lists_what_is_in_it_by_name() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.put(&editor, "/docs2/b.txt", "hello").await;
    home.put(&editor, "/docs2/a/deep.txt", "x").await;
    for path in ["/docs2", "/docs2/", "/files/docs2"] {
        let listed = home.get(path).await;
        let modified = |n: usize| listed.body["entries"][n]["lastModified"].clone();
        let body = json!({
            "entries": [
                {"path": "/docs2/a/", "type": "folder", "size": null, "contentType": null,
                 "lastModified": modified(0)},
                {"path": "/docs2/b.txt", "type": "file", "size": 5, "contentType": "text/plain",
                 "lastModified": modified(1)},
            ],
            "nextCursor": null, "hasMore": false,
        });
        check(&listed, 200, body);
        assert!(modified(0).is_u64() && modified(1).is_u64());
    }
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let names = ["a", "b", "c%20d", "e", "f"];
    for name in names {
        home.put(&editor, &format!("/many/{name}"), "x").await;
    }
    let mut seen = Vec::new();
    let mut query = String::from("limit=2");
    for has_more in [true, true, false] {
        let page = home.get(&format!("/many/?{query}")).await;
        assert_eq!(page.get("hasMore"), &json!(has_more));
        let entries = page.get("entries").as_array().expect("a list").clone();
        seen.extend(entries.iter().map(|entry| entry["path"].clone()));
        let cursor = page.text_of("nextCursor").replace(' ', "%20");
        query = format!("limit=2&cursor={cursor}");
    }
    let all: Vec<Value> =
        ["a", "b", "c d", "e", "f"].map(|name| json!(format!("/many/{name}"))).into();
    assert_eq!(seen, all);
    for limit in ["0", "1001", "-1", "x", "1.5", ""] {
        check_refused(&home.get(&format!("/many?limit={limit}")).await, 400, "limit");
    }
}

#[tokio::test]
async fn post_makes_a_folder_and_those_around_it() {
    let home = Home::start().await;
    let editor = home.editor().await;
    for (status, created) in [(201, true), (200, false)] {
        let made = home.send(Some(&editor), Method::POST, "/x/y/", "").await;
        check(&made, status, json!({"path": "/x/y/", "created": created}));
    }
    assert!(home.on_disk("x/y").is_dir());
    home.put(&editor, "/x/file", "x").await;
    let refused = home.send(Some(&editor), Method::POST, "/x/file/", "").await;
    check_refused(&refused, 409, "not a folder");
    let refused = home.send(Some(&editor), Method::POST, "/x/y", "").await;
    check_refused(&refused, 400, "POST creates a folder");
}

#[tokio::test]
async fn only_an_empty_folder_can_be_removed() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.put(&editor, "/x/file", "x").await;
    for path in ["/x", "/x/"] {
        check_refused(&home.delete(&editor, path).await, 409, "not empty");
    }
    check_refused(&home.delete(&editor, "/x/file/").await, 409, "not a folder");
    home.delete(&editor, "/x/file").await;
    assert_eq!(home.delete(&editor, "/x/").await.status, 204);
    check_refused(&home.delete(&editor, "/x/").await, 404, "no such");
    assert_ne!(home.delete(&editor, "/").await.status, 204);
}

#[tokio::test]
async fn a_missing_folder_is_missing() {
    let home = Home::start().await;
    check_refused(&home.get("/none/").await, 404, "no such");
    let editor = home.editor().await;
    home.put(&editor, "/file", "x").await;
    check_refused(&home.get("/file/").await, 404, "no such");
}

#[tokio::test]
async fn the_servers_own_folder_is_not_shown() {
    let home = Home::start().await;
    let listed = home.get("/").await;
    assert_eq!(listed.get("entries"), &json!([]));
    assert!(home.on_disk(".leasehold").is_dir());
}
