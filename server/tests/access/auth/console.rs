//! Tests that the console shows only what its user may read, and does only what its user may do.

use hyper::Method;
use leasehold_testkit::{Response, json};

use crate::auth::Scene;

const RULES: &str = r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "readers"
who = ["key:reader"]
may = ["read"]
namespaces = ["shop"]
locks = ["open/*"]

[[rule]]
name = "revokers"
who = ["key:revoker"]
may = ["revoke"]
namespaces = ["shop"]

[[rule]]
name = "admins"
who = ["key:admin"]
may = ["admin"]
namespaces = ["*"]
"#;

async fn scene() -> Scene {
    let scene = Scene::with(RULES, &["reader", "revoker", "admin", "nothing"], |_| {}).await;
    for (namespace, lock) in [("shop", "open%2Fa"), ("shop", "secret"), ("bank", "open%2Fvault")] {
        let body = json!({"owner_id": format!("{namespace}-owner-{lock}"), "ttl_ms": 60_000});
        let line = format!("POST /v1/namespaces/{namespace}/locks/{lock}/acquire");
        assert_eq!(scene.send("admin", &line, body).await.status, 200);
    }
    scene
}

async fn get(scene: &Scene, who: &str, path: &str) -> Response {
    scene.send(who, &format!("GET {path}"), json!(null)).await
}

#[tokio::test]
async fn nothing_is_named_that_may_not_be_read() {
    let scene = scene().await;
    for path in [
        "/console",
        "/console?q=owner",
        "/console?sort=ends&state=held",
        "/console?namespace=bank",
        "/",
    ] {
        let proof = scene.proof("reader");
        let headers = [("accept", "text/html"), (proof[0].0, proof[0].1.as_str())];
        let page =
            scene.local.client.send_with(Method::GET, path, &headers, "").await.expect("an answer");
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        for hidden in ["vault", "secret", "bank-owner", "per second"] {
            assert!(!page.text.contains(hidden), "{path} says {hidden}: {}", page.text);
        }
        let is_named = page.text.contains("bank");
        assert_eq!(is_named, path.contains("bank"), "only what was asked for is said again");
        let counts = "<span class=\"figure\">1</span><span class=\"what\">Locks</span>";
        assert!(page.text.contains(counts), "{path}: {}", page.text);
    }
    assert!(get(&scene, "admin", "/console").await.text.contains("vault"));
    scene.stop().await;
}

#[tokio::test]
async fn a_page_shows_locks_that_its_reader_may_read() {
    let scene = scene().await;
    let open = "/console/lock?namespace=shop&name=open/a";
    let secret = "/console/lock?namespace=shop&name=secret";
    for (who, path, status) in [
        ("reader", open, 200),
        ("reader", secret, 403),
        ("reader", "/console/lock?namespace=shop&name=nothing-there", 403),
        ("reader", "/console/lock?namespace=bank&name=open/vault", 403),
        ("reader", "/console/files", 403),
        ("reader", "/console/live?namespace=bank&name=open/vault", 403),
        ("admin", secret, 200),
        ("anonymous", "/console", 303),
        ("anonymous", open, 303),
        ("anonymous", "/console/live", 401),
    ] {
        let answer = get(&scene, who, path).await;
        assert_eq!(answer.status, status, "{who} {path}: {}", answer.text);
    }
    let to =
        get(&scene, "anonymous", open).await.headers["location"].to_str().expect("text").to_owned();
    assert_eq!(to, "/console/sign-in?to=%2Fconsole%2Flock%3Fnamespace%3Dshop%26name%3Dopen%2Fa");
    assert!(get(&scene, "reader", open).await.text.contains("key:reader may not revoke"));
    scene.stop().await;
}

#[tokio::test]
async fn browsers_are_shown_pages_wherever_they_may_not_look() {
    let scene = scene().await;
    let ask = async |who: &str, path: &str, more: &[(&str, &str)]| {
        let proof = scene.proof(who);
        let mut headers: Vec<_> = proof.iter().map(|(name, value)| (*name, &**value)).collect();
        headers.extend(more);
        let asked = scene.local.client.send_with(Method::GET, path, &headers, "");
        asked.await.expect("an answer")
    };
    let browser = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for (path, to) in [
        ("/lock/page", "/console/sign-in?to=%2Flock%2Fpage"),
        ("/docs", "/console/sign-in?to=%2Fdocs"),
    ] {
        let answer = ask("anonymous", path, &browser).await;
        assert_eq!(answer.status, 303, "{path}: {}", answer.text);
        assert_eq!(answer.headers["location"], to);
        let answer = ask("anonymous", path, &[("accept", "*/*")]).await;
        assert_eq!(answer.status, 401, "{path}: {}", answer.text);
        assert_eq!(answer.headers["content-type"], "application/json", "{path}");
    }
    let answer = ask("nothing", "/lock/page", &browser).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text.starts_with("<!DOCTYPE html>"), "{}", answer.text);
    let answer = ask("nothing", "/lock/page", &[]).await;
    assert_eq!((answer.status, answer.text.starts_with('{')), (403, true), "{}", answer.text);
    // The page does not link to pages that the user may not open.
    let page = ask("nothing", "/console", &browser).await.text;
    assert!(page.contains("Sign in as another user") && page.contains("/console/take"), "{page}");
    assert!(!page.contains("Go to the locks"), "{page}");
    let files = ask("reader", "/console/files", &browser).await.text;
    assert!(files.contains("key:reader needs the right files-read for files//"), "{files}");
    for (who, is_named) in [("reader", false), ("admin", true)] {
        let page = ask(who, "/console", &browser).await.text;
        for menu in ["href=\"/console/sessions\"", "href=\"/console/files\""] {
            assert_eq!(page.contains(menu), is_named, "{who} {menu}");
        }
    }
    // The sign-in page shows a user who is already signed in.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let key = format!("key={}", scene.keys["reader"].text);
    let sent = scene.local.client.send_with(Method::POST, "/console/sign-in", &form, key);
    let cookie = sent.await.expect("an answer").headers["set-cookie"].clone();
    let cookie = cookie.to_str().expect("text").split(';').next().expect("a pair");
    let entrance = ask("anonymous", "/console/sign-in?to=/docs", &[("cookie", cookie)]).await.text;
    assert!(entrance.contains("You are signed in as <bdi class=\"name\">key:reader"), "{entrance}");
    assert!(entrance.contains("<a href=\"/docs\">Go on</a>"), "{entrance}");
    // A link from another site arrives without the `SameSite` cookie. The page then requests itself again, with the
    // cookie.
    let sent = [
        browser[0],
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    for path in ["/console/lock?namespace=shop&name=open/a", "/console/sign-in?to=/docs", "/docs"] {
        let answer = ask("anonymous", path, &sent).await;
        let again = format!("content=\"0;url={}\"", path.replace('&', "&amp;"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert!(answer.text.contains(&again), "{path}: {}", answer.text);
    }
    scene.stop().await;
}

#[tokio::test]
async fn only_those_revoke_and_end_who_may() {
    let scene = scene().await;
    let post = async |who: &str, path: &str, form: &str| {
        let mut headers = scene.proof(who);
        headers.push(("content-type", "application/x-www-form-urlencoded".into()));
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let sent = scene.local.client.send_with(Method::POST, path, &headers, form.to_owned());
        sent.await.expect("an answer").status
    };
    let of = |namespace: &str, lock: &str| {
        format!("/console/lock/revoke?namespace={namespace}&name={lock}")
    };
    let form = "token=1&reason=r";
    for (who, path, status) in [
        ("anonymous", of("shop", "open/a"), 303),
        ("nothing", of("shop", "open/a"), 403),
        ("reader", of("shop", "open/a"), 403),
        ("reader", of("shop", "secret"), 403),
        ("revoker", of("bank", "open/vault"), 403),
    ] {
        assert_eq!(post(who, &path, form).await, status, "{who} {path}");
    }
    for (who, status) in [("anonymous", 303), ("reader", 403), ("revoker", 403), ("admin", 404)] {
        let form = "number=77&reason=r";
        assert_eq!(post(who, "/console/sessions/end", form).await, status, "{who}");
    }
    let held = async |path: &str| get(&scene, "admin", path).await.get("held") == true;
    assert!(held("/v1/namespaces/shop/locks/open%2Fa").await);
    assert_eq!(post("revoker", &of("shop", "secret"), form).await, 303);
    assert!(!held("/v1/namespaces/shop/locks/secret").await);
    scene.stop().await;
}

#[tokio::test]
async fn a_page_is_told_of_what_its_reader_may_see_and_of_nothing_else() {
    let scene = scene().await;
    let proof = scene.proof("reader");
    let headers = [(proof[0].0, proof[0].1.as_str())];
    let hidden = async {
        for n in 0..5 {
            let body = json!({"owner_id": "x", "ttl_ms": 60_000});
            let line = format!("POST /v1/namespaces/bank/locks/n{n}/acquire");
            scene.send("admin", &line, body).await;
        }
        // An event that the reader may see follows the hidden ones.
        let body = json!({"owner_id": "x", "ttl_ms": 60_000});
        scene.send("admin", "POST /v1/namespaces/shop/locks/open%2Fb/acquire", body).await
    };
    let told = scene.stream(&headers, "GET /console/live", "event: change");
    let (told, taken) = tokio::join!(told, async {
        let follows = async |_: &leasehold_testkit::Client| {
            let metrics = scene.send("admin", "GET /metrics", json!(null)).await.text;
            metrics.lines().any(|line| line == "leasehold_event_streams 1")
        };
        scene.local.until("the page is followed", follows).await;
        hidden.await
    });
    assert_eq!(taken.status, 200);
    assert_eq!(told.matches("event: change").count(), 1, "{told}");
    scene.stop().await;
}

#[tokio::test]
async fn wrong_keys_are_limited_at_the_console_and_written_down() {
    let home = leasehold_testkit::folder();
    let file = home.path().join("audit.log");
    let scene = Scene::with(RULES, &["reader"], |settings| {
        settings.auth.failures_per_minute = 4;
        settings.audit = Some(leasehold_server::audit::Options::new(&file));
    })
    .await;
    let page = ("accept", "text/html");
    let ask =
        async |line: &str, header: (&str, &str)| scene.status(&[page, header], line, "").await;
    // Basic credentials are meant for a proxy and are not checked here. An old cookie leads to the sign-in page.
    let basic = ("authorization", "Basic YTpi");
    let cookie = ("cookie", "__Host-leasehold=0");
    for header in [basic, cookie, page] {
        for _ in 0..3 {
            assert_eq!(ask("GET /console", header).await, 303, "{header:?}");
        }
    }
    let wrong = [("authorization", "Bearer lh_a_b"), ("authorization", "Bearer guess")];
    for (n, line) in
        ["GET /console", "GET /", "GET /console/live", "GET /console/lock", "GET /console", "GET /"]
            .into_iter()
            .enumerate()
    {
        let status = ask(line, wrong[n % 2]).await;
        assert_eq!(status, if n < 4 { 401 } else { 429 }, "{n} {line}");
    }
    let told = crate::auth::audit::lines(&file);
    let n = |outcome: &str| told.iter().filter(|line| line["outcome"] == outcome).count();
    assert_eq!((n("unauthenticated"), n("limited")), (4, 2));
    let right = scene.proof("reader").remove(0);
    assert_eq!(ask("GET /console", (right.0, &right.1)).await, 200);
    scene.stop().await;
}
