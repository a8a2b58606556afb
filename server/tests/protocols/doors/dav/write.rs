//! Tests of reading and writing files, and of the conditions on writes.

use crate::doors::dav::{EXCLUSIVE, Scene, ZERO, is, says, shown};

#[tokio::test]
async fn what_is_written_is_read() {
    let scene = Scene::new().await;
    let written = scene.put("/a.txt", "hello").await;
    is(&written, 201);
    let got = scene.plain("GET /a.txt").await;
    assert_eq!((got.status, &*got.text), (200, "hello"));
    assert_eq!(got.headers["etag"], written.headers["etag"]);
    assert_eq!(got.headers["last-modified"], written.headers["last-modified"]);
    let part = scene.ask("GET /a.txt", &[("range", "bytes=1-2")], "").await;
    assert_eq!((part.status, &*part.text), (206, "el"));
    let tag = written.headers["etag"].to_str().unwrap();
    is(&scene.ask("GET /a.txt", &[("if-none-match", tag)], "").await, 304);
    let head = scene.plain("HEAD /a.txt").await;
    assert_eq!((head.status, &head.headers["content-length"]), (200, &"5".parse().unwrap()));
    is(&scene.plain("GET /none").await, 404);
    is(&scene.plain("GET /").await, 200);
    is(&scene.plain("PUT /no/such").await, 409);
    is(&scene.plain("MKCOL /d").await, 201);
    is(&scene.plain("PUT /d").await, 405);
    is(&scene.plain("MKCOL /d").await, 405);
    is(&scene.plain("MKCOL /a.txt").await, 405);
    is(&scene.plain("MKCOL /no/such").await, 409);
    is(&scene.plain("MKCOL /a.txt/x").await, 409);
    is(&scene.ask("MKCOL /e", &[], "<x/>").await, 415);
    is(&scene.ask("PUT /a.txt", &[("content-range", "bytes 0-1/2")], "xx").await, 400);
    is(&scene.ask("PUT /a.txt", &[("if-match", "\"no\"")], "x").await, 412);
    is(&scene.ask("PUT /a.txt", &[("if-none-match", "*")], "x").await, 412);
    is(&scene.ask("PUT /a.txt", &[("if-match", tag)], "x").await, 204);
    let unknown = scene.plain("PATCH /a.txt").await;
    is(&unknown, 405);
    assert!(unknown.headers["allow"].to_str().unwrap().contains("PROPFIND"));
    let options = scene.plain("OPTIONS /").await;
    assert_eq!((options.status, &options.headers["dav"]), (200, &"1, 2".parse().unwrap()));
    assert_eq!(options.headers["ms-author-via"], "DAV");
}

#[tokio::test]
async fn a_file_has_its_bounds() {
    let scene = Scene::with(|settings| settings.dialect.files.bytes_max = 4).await;
    is(&scene.put("/a", "1234").await, 201);
    says(&scene.put("/a", "12345").await, 413, &["files-bytes-max"]);
    assert_eq!(scene.content("/a").await.as_deref(), Some("1234"));
}

/// Tests each form of the `If` header and its result, on a locked file and on an unlocked one.
#[tokio::test]
async fn every_form_of_if_is_judged() {
    let scene = Scene::new().await;
    let tag = |written: &leasehold_testkit::Response| {
        written.headers["etag"].to_str().unwrap().to_owned()
    };
    let (mut a, mut b) = (tag(&scene.put("/a", "1").await), tag(&scene.put("/b", "1").await));
    let t = scene.lock("/a", &[ZERO]).await;
    let other = "opaquelocktoken:00000000-0000-4000-8000-000000000000";
    for (path, list, status) in [
        ("/a", "(<T>)", 204),
        ("/a", "(<T> [TAG])", 204),
        ("/a", "([TAG])", 423),
        ("/a", "(<T> [\"stale\"])", 412),
        ("/a", "(<X>)", 412),
        ("/a", "(<X>) (<T>)", 204),
        ("/a", "(<X>) (Not <DAV:no-lock>)", 423),
        ("/a", "(<T>) (Not <DAV:no-lock>)", 204),
        ("/a", "(<DAV:no-lock>)", 412),
        ("/a", "(Not <T>)", 412),
        ("/a", "(Not <X> <T>)", 204),
        ("/a", "(<DAV:no-lock> [TAG])", 412),
        ("/a", "(<T> [\"stale\"]) (Not <DAV:no-lock> [\"stale\"])", 412),
        ("/a", "<http://x/dav/a> (<T>)", 204),
        ("/a", "</dav/a> (<T>)", 204),
        // The token is not a lock on that path.
        ("/a", "<http://x/dav/b> (<T>)", 412),
        ("/a", "<http://x/dav/b> (Not <T>)", 204),
        ("/a", "<http://elsewhere/dav/a> (<T>)", 412),
        ("/a", "<http://x/elsewhere> (Not <T>)", 412),
        ("/a", "(<T>", 400),
        ("/a", "", 400),
        ("/b", "(<T>)", 412),
        ("/b", "(<X>)", 412),
        ("/b", "(<DAV:no-lock>)", 412),
        ("/b", "(Not <DAV:no-lock>)", 204),
        ("/b", "(Not <X>)", 204),
        ("/b", "([W/TAG])", 204),
        ("/b", "([TAG])", 204),
        ("/b", "(Not [TAG])", 412),
    ] {
        let now = if path == "/a" { &mut a } else { &mut b };
        let list = list.replace("<T>", &format!("<{t}>")).replace("<X>", &format!("<{other}>"));
        let list = list.replace("TAG", now);
        let answer = scene.ask(&format!("PUT {path}"), &[("if", &list), ("host", "x")], "2").await;
        assert_eq!(answer.status, status, "{path} {list}: {answer:?}");
        if status == 204 {
            *now = tag(&answer);
        }
    }
    let twice = [("if", &*shown(&t)), ("if", &*shown(&t))];
    is(&scene.ask("PUT /a", &twice, "x").await, 400);
    is(&scene.ask("LOCK /c", &[ZERO, ("if", "(<DAV:no-lock>)")], EXCLUSIVE).await, 412);
    is(&scene.plain("GET /c").await, 404);
}
