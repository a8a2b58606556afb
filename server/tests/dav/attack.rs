//! Requests that nobody sends by mistake.

use crate::{DEEP, EXCLUSIVE, Scene, ZERO, is, says, shown};

#[tokio::test]
async fn bombs_of_xml_are_refused() {
    let scene = Scene::new().await;
    is(&scene.put("/f", "1").await, 201);
    let deep = "<a xmlns='DAV:'>".to_owned() + &"<b>".repeat(20_000);
    let laughs = "<!DOCTYPE p [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;'>]><propfind xmlns='DAV:'>&b;</propfind>";
    let outside =
        "<!DOCTYPE p SYSTEM 'file:///etc/passwd'><propfind xmlns='DAV:'><allprop/></propfind>";
    let nested = format!(
        "<propertyupdate xmlns='DAV:'><set><prop>{}{}</prop></set></propertyupdate>",
        "<x>".repeat(100),
        "</x>".repeat(100)
    );
    for method in ["PROPFIND", "PROPPATCH", "LOCK"] {
        for body in
            [&*deep, laughs, outside, &nested, "<", "\u{0}", "<propfind/>", "<x xmlns='DAV:'/>"]
        {
            let answer = scene.ask(&format!("{method} /f"), &[ZERO], body).await;
            assert_eq!(answer.status, 400, "{method} {}: {answer:?}", &body[..body.len().min(60)]);
        }
        let huge = format!("<propfind xmlns='DAV:'>{}</propfind>", " ".repeat(2 << 20));
        is(&scene.ask(&format!("{method} /f"), &[ZERO], huge).await, 413);
    }
    is(&scene.put("/f", "2").await, 204);
}

#[tokio::test]
async fn odd_names_stay_inside_and_come_back() {
    let scene = Scene::new().await;
    for path in [
        "/..",
        "/../x",
        "/a/../../x",
        "/%2e%2e/x",
        "/a%2f..%2fb",
        "/a%00b",
        "/.leasehold/x",
        "//x",
        "/%ff",
    ] {
        for method in ["PUT", "MKCOL", "DELETE", "LOCK", "PROPFIND", "GET"] {
            let answer = scene.ask(&format!("{method} {path}"), &[ZERO], "").await;
            assert!([400, 404].contains(&answer.status), "{method} {path}: {answer:?}");
        }
        is(&scene.put("/f", "1").await, 201);
        let destination = format!("/dav{path}");
        let moved = scene.ask("MOVE /f", &[("destination", &destination)], "").await;
        assert!([400, 404].contains(&moved.status), "{path}: {moved:?}");
        is(&scene.plain("DELETE /f").await, 204);
    }
    for name in [
        "a%20b",
        "%C3%A9",
        "%3Ca%3E%26%22'",
        "%23%3F",
        "a%25b",
        "...",
        "-",
        "a%5Cb",
        "%F0%9F%98%80",
    ] {
        let path = format!("/{name}");
        is(&scene.put(&path, name).await, 201);
        let found = scene.ask("PROPFIND /", &[("depth", "1")], "").await;
        is(&found, 207);
        let hrefs = found.text.split("<D:href>/dav/").skip(2);
        let href = hrefs.map(|rest| rest.split('<').next().unwrap()).next().unwrap().to_owned();
        assert_eq!(scene.content(&format!("/{href}")).await.as_deref(), Some(name), "{href}");
        is(&scene.plain(&format!("DELETE /{href}")).await, 204);
    }
    let link = scene.on_disk("link");
    std::os::unix::fs::symlink("/etc", &link).unwrap();
    for line in ["GET /link", "GET /link/passwd", "PROPFIND /link", "DELETE /link/passwd"] {
        let answer = scene.ask(line, &[ZERO], "").await;
        assert!([403, 404, 409].contains(&answer.status), "{line}: {answer:?}");
    }
    let put = scene.put("/link/x", "x").await;
    assert_eq!(put.status, 409, "{put:?}");
    let moved = scene.ask("MOVE /link", &[("destination", "/dav/other")], "").await;
    assert_eq!(moved.status, 404, "{moved:?}");
}

#[tokio::test]
async fn deep_trees_are_handled_or_refused() {
    let scene = Scene::new().await;
    let mut path = String::new();
    let mut made = 0;
    let refused = loop {
        path += "/d";
        let answer = scene.plain(&format!("MKCOL {path}")).await;
        if answer.status != 201 {
            break answer;
        }
        made += 1;
        assert!(made < 100);
    };
    says(&refused, 400, &["group-max"]);
    assert_eq!(made, 62);
    // Whatever came by other ways is removed as well, however deep.
    std::fs::create_dir_all(scene.on_disk(&("d/".to_owned() + &"x/".repeat(400)))).unwrap();
    is(&scene.ask("COPY /d", &[("destination", "/dav/c")], "").await, 201);
    is(&scene.plain("DELETE /d").await, 204);
    is(&scene.plain("DELETE /c").await, 204);
    let left = std::fs::read_dir(scene.on_disk(".leasehold/incoming")).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[tokio::test]
async fn many_conditions_cost_little() {
    let scene = Scene::new().await;
    let token = scene.lock("/f", &[ZERO]).await;
    let lists = |n: usize| {
        format!("(<opaquelocktoken:x> {})", "<a:b>".repeat(50)).repeat(n) + &shown(&token)
    };
    is(&scene.ask("PUT /f", &[("if", &lists(20))], "x").await, 204);
    is(&scene.ask("PUT /f", &[("if", &lists(64))], "x").await, 400);
}

#[tokio::test]
async fn an_owner_too_long_to_keep_is_refused() {
    let scene = Scene::new().await;
    let long = EXCLUSIVE.replace("alice", &"a".repeat(17_000));
    says(&scene.ask("LOCK /f", &[ZERO], long).await, 400, &["metadata-bytes-max"]);
    is(&scene.plain("GET /f").await, 404);
    let fits = EXCLUSIVE.replace("alice", &"a".repeat(15_000));
    is(&scene.ask("LOCK /f", &[ZERO], fits).await, 201);
}

#[tokio::test]
async fn locks_over_locks_are_refused_in_every_order() {
    let scene = Scene::new().await;
    for folder in ["/a", "/a/b"] {
        is(&scene.plain(&format!("MKCOL {folder}")).await, 201);
    }
    is(&scene.put("/a/b/f", "1").await, 201);
    is(&scene.put("/x", "1").await, 201);
    // One's own lock is in one's own way.
    let deep = scene.lock("/a/b", &[DEEP]).await;
    let with = shown(&deep);
    for path in ["/a/b", "/a/b/f", "/a", "/"] {
        is(
            &scene.ask(&format!("LOCK {path}"), &[DEEP, ("if", "(Not <a:b>)")], EXCLUSIVE).await,
            423,
        );
    }
    is(&scene.ask("LOCK /a/b/f", &[ZERO, ("if", &with)], EXCLUSIVE).await, 423);
    // Over a locked folder, and a locked folder over something else.
    is(&scene.ask("MOVE /x", &[("destination", "/dav/a/b")], "").await, 423);
    is(&scene.ask("COPY /x", &[("destination", "/dav/a/b")], "").await, 423);
    is(&scene.ask("COPY /x", &[("destination", "/dav/a/b/f")], "").await, 423);
    is(&scene.ask("MOVE /a", &[("destination", "/dav/z")], "").await, 423);
    is(&scene.ask("MOVE /a/b", &[("destination", "/dav/z"), ("if", &with)], "").await, 201);
    is(&scene.ask("PUT /z/f", &[], "free").await, 204);
    is(&scene.ask("PUT /a/b/f", &[("if", &with)], "x").await, 409);
}
