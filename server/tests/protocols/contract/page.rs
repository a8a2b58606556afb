//! Tests of `/docs`, the human-readable contract, which describes only this server.

use leasehold_testkit::Local;

#[tokio::test]
async fn the_page_and_what_it_needs_come_from_this_server() {
    let local = Local::ephemeral().await;
    for (path, kind, begins) in [
        ("/docs", "text/html; charset=utf-8", "<!doctype html>"),
        ("/docs/docs.css", "text/css; charset=utf-8", ":root"),
        ("/docs/docs.js", "text/javascript; charset=utf-8", "//"),
        ("/openapi.json", "application/json", "{"),
    ] {
        let answer = local.client.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.headers["content-type"], kind, "{path}");
        assert!(answer.text.starts_with(begins), "{path}");
        let policy = answer.headers["content-security-policy"].to_str().expect("text");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}");
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        if path != "/openapi.json" {
            assert!(!answer.text.contains("://"), "{path} names another server");
        }
    }
}

#[tokio::test]
async fn everything_the_page_names_is_there() {
    let local = Local::ephemeral().await;
    let page = local.client.get("/docs").await.text;
    let named: Vec<_> = ["href=\"", "src=\""]
        .into_iter()
        .flat_map(|attribute| page.split(attribute).skip(1))
        .filter_map(|rest| Some(rest.split_once('"')?.0))
        .collect();
    assert!(named.len() >= 3, "{named:?}");
    for path in named {
        assert_eq!(local.client.get(&format!("/{path}")).await.status, 200, "{path}");
    }
}
