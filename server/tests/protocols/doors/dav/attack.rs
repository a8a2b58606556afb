//! Tests of deliberately hostile requests.

use crate::doors::dav::{DEEP, EXCLUSIVE, Scene, ZERO, is, says, shown};

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
    // A directory that another program made can be deepest of all, and is still removed.
    std::fs::create_dir_all(scene.on_disk(&("d/".to_owned() + &"x/".repeat(400)))).unwrap();
    // It cannot be copied, because no client could change or remove the copy.
    says(&scene.ask("COPY /d", &[("destination", "/dav/c")], "").await, 400, &["group-max"]);
    is(&scene.plain("GET /c").await, 404);
    is(&scene.plain("DELETE /d").await, 204);
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
    // A client's own lock also blocks its second lock.
    let deep = scene.lock("/a/b", &[DEEP]).await;
    let with = shown(&deep);
    for path in ["/a/b", "/a/b/f", "/a", "/"] {
        is(
            &scene.ask(&format!("LOCK {path}"), &[DEEP, ("if", "(Not <a:b>)")], EXCLUSIVE).await,
            423,
        );
    }
    is(&scene.ask("LOCK /a/b/f", &[ZERO, ("if", &with)], EXCLUSIVE).await, 423);
    // A move or copy onto a locked directory, and a move of a directory that contains a locked one.
    is(&scene.ask("MOVE /x", &[("destination", "/dav/a/b")], "").await, 423);
    is(&scene.ask("COPY /x", &[("destination", "/dav/a/b")], "").await, 423);
    is(&scene.ask("COPY /x", &[("destination", "/dav/a/b/f")], "").await, 423);
    is(&scene.ask("MOVE /a", &[("destination", "/dav/z")], "").await, 423);
    is(&scene.ask("MOVE /a/b", &[("destination", "/dav/z"), ("if", &with)], "").await, 201);
    is(&scene.ask("PUT /z/f", &[], "free").await, 204);
    is(&scene.ask("PUT /a/b/f", &[("if", &with)], "x").await, 409);
}

#[tokio::test]
async fn what_goes_deeper_can_still_be_changed() {
    let scene = Scene::new().await;
    std::fs::create_dir_all(scene.on_disk(&"d/".repeat(60))).unwrap();
    std::fs::write(scene.on_disk(&("d/".repeat(60) + "f")), "1").unwrap();
    is(&scene.plain("MKCOL /e").await, 201);
    is(&scene.plain("MKCOL /e/e").await, 201);
    for method in ["COPY", "MOVE"] {
        let refused =
            scene.ask(&format!("{method} /d"), &[("destination", "/dav/e/e/c")], "").await;
        says(&refused, 400, &["more than 62 levels", "nothing was changed"]);
        is(&scene.plain("GET /e/e/c").await, 404);
        is(&scene.plain("GET /d").await, 200);
    }
    let deepest = "/d".repeat(59) + "/f";
    is(&scene.ask("COPY /d", &[("destination", "/dav/e/c")], "").await, 201);
    is(&scene.put(&format!("/e/c{deepest}"), "2").await, 204);
    is(&scene.plain(&format!("DELETE /e/c{deepest}")).await, 204);
    is(&scene.ask("MOVE /d", &[("destination", "/dav/e/m")], "").await, 201);
    is(&scene.put(&format!("/e/m{deepest}"), "2").await, 204);
    let left = std::fs::read_dir(scene.on_disk(".leasehold/incoming")).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[tokio::test]
async fn an_operators_link_stays_where_it_is() {
    let scene = Scene::new().await;
    let link = scene.on_disk("link");
    std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
    is(&scene.put("/f", "x").await, 201);
    is(&scene.plain("MKCOL /d").await, 201);
    says(&scene.put("/link", "x").await, 409, &["symbolic link"]);
    says(&scene.ask("LOCK /link", &[ZERO], EXCLUSIVE).await, 409, &["symbolic link"]);
    for line in ["COPY /f", "MOVE /f", "COPY /d", "MOVE /d"] {
        let refused = scene.ask(line, &[("destination", "/dav/link")], "").await;
        says(&refused, 409, &["symbolic link"]);
    }
    is(&scene.plain("DELETE /link").await, 404);
    assert_eq!(std::fs::read_link(link).unwrap().to_str(), Some("/etc/hostname"));
    assert_eq!(scene.content("/f").await.as_deref(), Some("x"));
    // The refused requests left no lock behind.
    is(&scene.plain("GET /link").await, 404);
    let none = leasehold_testkit::json!([]);
    let is_free = async |_: &leasehold_testkit::Client| {
        *scene.plain("GET =/admin/locks").await.get("locks") == none
    };
    scene.local.until("nothing is locked", is_free).await;
}

#[tokio::test]
async fn a_path_with_a_trailing_slash_is_not_a_file() {
    let scene = Scene::new().await;
    is(&scene.put("/f", "1").await, 201);
    is(&scene.plain("MKCOL /d/").await, 201);
    is(&scene.put("/d/g", "1").await, 201);
    says(&scene.put("/new/", "1").await, 409, &["MKCOL"]);
    says(&scene.ask("LOCK /new/", &[ZERO], EXCLUSIVE).await, 409, &["MKCOL"]);
    for line in ["PUT /f/", "MOVE /f/", "COPY /f/", "DELETE /f/", "LOCK /f/"] {
        let body = if line.starts_with("LOCK") { EXCLUSIVE } else { "" };
        let refused = scene.ask(line, &[("destination", "/dav/x"), DEEP], body).await;
        assert!([404, 409].contains(&refused.status), "{line}: {refused:?}");
    }
    says(&scene.ask("MOVE /f", &[("destination", "/dav/x/")], "").await, 409, &["Destination"]);
    for line in ["DELETE /d?x", "PUT /f?x=1", "MKCOL /n?x", "MOVE /f?x", "COPY /f?x", "LOCK /f?x"] {
        let refused = scene.ask(line, &[("destination", "/dav/x")], "").await;
        says(&refused, 400, &["takes none"]);
    }
    for missing in ["/new", "/x", "/n"] {
        is(&scene.plain(&format!("GET {missing}")).await, 404);
    }
    assert_eq!(scene.content("/f").await.as_deref(), Some("1"));
    is(&scene.ask("MOVE /d/", &[("destination", "/dav/e/")], "").await, 201);
    is(&scene.plain("DELETE /e/").await, 204);
}

#[tokio::test]
async fn what_is_compressed_on_the_way_is_refused() {
    let scene = Scene::new().await;
    let gzip = [("content-encoding", "gzip")];
    says(&scene.ask("PUT /f", &gzip, "x").await, 415, &["Content-Encoding"]);
    is(&scene.plain("GET /f").await, 404);
    is(&scene.ask("PUT /f", &[("content-encoding", "identity")], "x").await, 201);
}
