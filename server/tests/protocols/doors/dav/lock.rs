//! Tests of LOCK, of refreshing a lock, and of UNLOCK.

use crate::doors::dav::{DEEP, EXCLUSIVE, MINUTE_MS, SHARED, Scene, ZERO, is, says, shown, token};

#[tokio::test]
async fn a_lock_keeps_others_from_changing_a_file_and_names_itself() {
    let scene = Scene::new().await;
    is(&scene.put("/a", "old").await, 201);
    let locked = scene.ask("LOCK /a", &[ZERO, ("timeout", "Second-600")], EXCLUSIVE).await;
    let parts =
        ["<D:timeout>Second-600</D:timeout>", "<D:depth>0</D:depth>", "<D:href>/dav/a</D:href>"];
    says(&locked, 200, &parts);
    says(&locked, 200, &["<D:owner xmlns:D=\"DAV:\">alice at desk 5</D:owner>", "<D:exclusive/>"]);
    let token = token(&locked);
    assert!(locked.text.contains(&token), "{locked:?}");
    for (line, headers) in [
        ("PUT /a", &[][..]),
        ("DELETE /a", &[]),
        ("PROPPATCH /a", &[]),
        ("MOVE /a", &[("destination", "/dav/b")]),
        ("LOCK /a", &[ZERO]),
    ] {
        let body = match line {
            "PROPPATCH /a" => {
                "<propertyupdate xmlns='DAV:'><set><prop><x/></prop></set></propertyupdate>"
            }
            "LOCK /a" => EXCLUSIVE,
            _ => "",
        };
        let refused = scene.ask(line, headers, body).await;
        says(&refused, 423, &["/dav/a", "is locked by alice at desk 5"]);
    }
    is(&scene.ask("COPY /a", &[("destination", "/dav/copy")], "").await, 201);
    is(&scene.put("/copy", "a copy is not locked").await, 204);
    assert_eq!(scene.content("/a").await.as_deref(), Some("old"));
    let with = shown(&token);
    is(&scene.ask("PUT /a", &[("if", &with)], "new").await, 204);
    is(&scene.ask("UNLOCK /a", &[("lock-token", &format!("<{token}>"))], "").await, 204);
    is(&scene.put("/a", "unlocked").await, 204);
}

#[tokio::test]
async fn what_is_not_there_becomes_an_empty_file_when_it_is_locked() {
    let scene = Scene::new().await;
    let locked = scene.ask("LOCK /new", &[ZERO], EXCLUSIVE).await;
    is(&locked, 201);
    assert_eq!(scene.content("/new").await.as_deref(), Some(""));
    let with = shown(&token(&locked));
    is(&scene.ask("PUT /new", &[("if", &with)], "x").await, 204);
    is(&scene.ask("LOCK /no/such", &[ZERO], EXCLUSIVE).await, 409);
    let refused = scene.ask("LOCK /x", &[("depth", "1")], EXCLUSIVE).await;
    says(&refused, 400, &["Depth"]);
}

#[tokio::test]
async fn shared_locks_stand_beside_each_other_and_beside_nothing_else() {
    let scene = Scene::new().await;
    is(&scene.put("/a", "1").await, 201);
    let one = token(&scene.ask("LOCK /a", &[ZERO], SHARED).await);
    let two = token(&scene.ask("LOCK /a", &[ZERO], SHARED).await);
    assert_ne!(one, two);
    is(&scene.ask("LOCK /a", &[ZERO], EXCLUSIVE).await, 423);
    is(&scene.put("/a", "2").await, 423);
    // A client with either of the shared tokens can write.
    is(&scene.ask("PUT /a", &[("if", &shown(&one))], "2").await, 204);
    is(&scene.ask("UNLOCK /a", &[("lock-token", &format!("<{one}>"))], "").await, 204);
    is(&scene.put("/a", "3").await, 423);
    is(&scene.ask("UNLOCK /a", &[("lock-token", &format!("<{two}>"))], "").await, 204);
    is(&scene.put("/a", "3").await, 204);
}

#[tokio::test]
async fn a_lock_lasts_as_long_as_was_granted_and_is_refreshed() {
    let scene = Scene::new().await;
    for (timeout, granted) in [
        ("Second-600", "Second-600"),
        ("Second-1", "Second-60"),
        ("Infinite", "Second-86400"),
        ("Infinite, Second-4100000000", "Second-86400"),
        ("Second-99999999999999", "Second-86400"),
        ("Second-99999999999999999999", "Second-86400"),
        ("Second-", "Second-1800"),
        ("Extended, Second-120", "Second-120"),
        ("nonsense", "Second-1800"),
        ("", "Second-1800"),
    ] {
        let headers =
            if timeout.is_empty() { vec![ZERO] } else { vec![ZERO, ("timeout", timeout)] };
        let locked = scene.ask("LOCK /a", &headers, EXCLUSIVE).await;
        assert!(locked.text.contains(&format!(">{granted}<")), "{timeout}: {locked:?}");
        let token = format!("<{}>", token(&locked));
        is(&scene.ask("UNLOCK /a", &[("lock-token", &token)], "").await, 204);
    }
    let with = shown(&scene.lock("/a", &[ZERO, ("timeout", "Second-600")]).await);
    scene.local.advance_ms(9 * MINUTE_MS);
    let refreshed = scene.ask("LOCK /a", &[("if", &with), ("timeout", "Second-600")], "").await;
    says(&refreshed, 200, &[">Second-600<"]);
    assert!(!refreshed.headers.contains_key("lock-token"), "{refreshed:?}");
    scene.local.advance_ms(9 * MINUTE_MS);
    is(&scene.put("/a", "x").await, 423);
    scene.local.advance_ms(2 * MINUTE_MS);
    is(&scene.ask("LOCK /a", &[("if", &with)], "").await, 412);
    says(
        &scene.ask("PUT /a", &[("if", &with)], "x").await,
        412,
        &["the lock expired, was revoked"],
    );
    is(&scene.put("/a", "x").await, 204);
    is(&scene.ask("LOCK /a", &[], "").await, 400);
    is(&scene.ask("LOCK /a", &[("if", &format!("{with} {with}"))], "").await, 400);
}

#[tokio::test]
async fn unlocking_needs_the_token_of_a_lock_on_it() {
    let scene = Scene::new().await;
    is(&scene.put("/b", "").await, 201);
    let token = scene.lock("/a", &[ZERO]).await;
    for (path, header, status) in [
        ("/a", None, 400),
        ("/a", Some(token.clone()), 400),
        ("/a", Some("<opaquelocktoken:0>".into()), 409),
        ("/b", Some(format!("<{token}>")), 409),
        ("/a", Some(format!("<{token}>")), 204),
        ("/a", Some(format!("<{token}>")), 409),
    ] {
        let headers: Vec<_> = header.iter().map(|value| ("lock-token", value.as_str())).collect();
        let answer = scene.ask(&format!("UNLOCK {path}"), &headers, "").await;
        assert_eq!(answer.status, status, "{path} {header:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_lock_survives_a_restart_with_all_its_parts() {
    let data = leasehold_testkit::folder();
    let files = data.path().join("files");
    let settings = || leasehold_server::serve::Settings {
        files: Some(files.clone()),
        ..leasehold_testkit::settings(Some(data.path()))
    };
    let folder = leasehold_testkit::folder();
    let local = leasehold_testkit::Local::start(settings()).await;
    let clock = local.clock.clone();
    let mut scene = Scene { local, folder };
    is(&scene.plain("MKCOL /d").await, 201);
    is(&scene.put("/d/f", "1").await, 201);
    let deep = scene.lock("/d", &[DEEP]).await;
    scene.local.stop().await;
    scene.local = leasehold_testkit::Local::start_at(settings(), clock).await;
    is(&scene.put("/d/f", "2").await, 423);
    is(&scene.ask("LOCK /d/g", &[ZERO], EXCLUSIVE).await, 423);
    is(&scene.ask("PUT /d/f", &[("if", &shown(&deep))], "2").await, 204);
    is(&scene.ask("LOCK /d", &[("if", &shown(&deep))], "").await, 200);
    is(&scene.ask("UNLOCK /d", &[("lock-token", &format!("<{deep}>"))], "").await, 204);
    is(&scene.put("/d/f", "3").await, 204);
}
