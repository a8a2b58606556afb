//! Tests of removing, moving and copying files and directories.

use crate::doors::dav::{DEEP, Scene, ZERO, is, says, shown};

async fn scene() -> Scene {
    let scene = Scene::new().await;
    for folder in ["/d", "/d/in", "/e"] {
        is(&scene.plain(&format!("MKCOL {folder}")).await, 201);
    }
    for file in ["/d/f", "/d/in/g", "/e/h"] {
        is(&scene.put(file, file).await, 201);
    }
    scene
}

fn to(path: &str) -> [(&str, &str); 1] {
    [("destination", path)]
}

#[tokio::test]
async fn a_folder_is_removed_with_all_that_is_in_it() {
    let scene = scene().await;
    is(&scene.plain("DELETE /d/").await, 204);
    assert!(!scene.on_disk("d").exists());
    is(&scene.plain("GET /d/in/g").await, 404);
    is(&scene.plain("DELETE /d").await, 404);
    is(&scene.plain("DELETE /").await, 403);
    is(&scene.ask("DELETE /e", &[ZERO], "").await, 400);
    assert_eq!(scene.content("/e/h").await.as_deref(), Some("/e/h"));
    let left = std::fs::read_dir(scene.on_disk(".leasehold/incoming")).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[tokio::test]
async fn moving_moves_everything_and_says_whether_it_replaced_something() {
    let scene = scene().await;
    is(&scene.ask("MOVE /d", &to("/dav/moved"), "").await, 201);
    assert_eq!(scene.content("/moved/in/g").await.as_deref(), Some("/d/in/g"));
    is(&scene.plain("GET /d").await, 404);
    is(&scene.ask("MOVE /moved/f", &to("/dav/e/h"), "").await, 204);
    assert_eq!(scene.content("/e/h").await.as_deref(), Some("/d/f"));
    // A directory replaces a file.
    is(&scene.ask("MOVE /moved", &to("/dav/e/h"), "").await, 204);
    assert_eq!(scene.content("/e/h/in/g").await.as_deref(), Some("/d/in/g"));
    is(&scene.ask("MOVE /e/h/in/g", &to("/dav/e"), "").await, 403);
    is(&scene.plain("MKCOL /full").await, 201);
    is(&scene.put("/full/x", "x").await, 201);
    is(&scene.ask("MOVE /e", &to("/dav/full"), "").await, 204);
    is(&scene.plain("GET /full/x").await, 404);
    assert_eq!(scene.content("/full/h/in/g").await.as_deref(), Some("/d/in/g"));
}

#[tokio::test]
async fn copying_copies_everything_or_only_the_folder() {
    let scene = scene().await;
    is(&scene.ask("COPY /d", &to("/dav/c"), "").await, 201);
    assert_eq!(scene.content("/c/in/g").await.as_deref(), Some("/d/in/g"));
    is(&scene.put("/c/in/g", "changed").await, 204);
    assert_eq!(scene.content("/d/in/g").await.as_deref(), Some("/d/in/g"));
    is(&scene.ask("COPY /d", &[ZERO, ("destination", "/dav/flat")], "").await, 201);
    is(&scene.plain("GET /flat").await, 200);
    is(&scene.plain("GET /flat/f").await, 404);
    is(&scene.ask("COPY /d", &[DEEP, ("destination", "/dav/flat")], "").await, 204);
    is(&scene.plain("GET /flat/f").await, 200);
    is(&scene.ask("COPY /d/f", &to("/dav/e/h"), "").await, 204);
    assert_eq!(scene.content("/e/h").await.as_deref(), Some("/d/f"));
    is(&scene.ask("COPY /d/f", &to("/dav/c"), "").await, 204);
    assert_eq!(scene.content("/c").await.as_deref(), Some("/d/f"));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let scene = scene().await;
    for method in ["COPY", "MOVE"] {
        for (path, headers, status) in [
            ("/d/f", &[][..], 400),
            ("/d/f", &[("destination", "/dav/d/f")], 403),
            ("/d", &[("destination", "/dav/d/in/d")], 403),
            ("/d/f", &[("destination", "/dav/d")], 403),
            ("/d/f", &[("destination", "/dav/no/such")], 409),
            ("/d/f", &[("destination", "/elsewhere")], 502),
            ("/d/f", &[("destination", "http://other.example/dav/x")], 502),
            ("/d/f", &[("destination", "http://127.0.0.1:1/dav/x")], 502),
            ("/d/f", &[("destination", "ftp://127.0.0.1/dav/x")], 502),
            ("/d/f", &[("destination", "/dav/%2e%2e/x")], 400),
            ("/d/f", &[("destination", "/dav/e/h"), ("overwrite", "F")], 412),
            ("/d/f", &[("destination", "/dav/x"), ("overwrite", "maybe")], 201),
            ("/d/f", &[("destination", "/dav/e/h"), ("overwrite", "maybe")], 400),
            ("/d/f", &[("destination", "/dav/x"), ("depth", "1")], 400),
            ("/none", &[("destination", "/dav/x")], 404),
            ("/d/f", &[("destination", "/dav/")], 403),
        ] {
            if status == 201 {
                continue;
            }
            let answer = scene.ask(&format!("{method} {path}"), headers, "").await;
            assert_eq!(answer.status, status, "{method} {path} {headers:?}: {answer:?}");
        }
    }
    is(&scene.ask("MOVE /", &to("/dav/x"), "").await, 403);
    for file in ["/d/f", "/d/in/g", "/e/h"] {
        assert_eq!(scene.content(file).await.as_deref(), Some(file));
    }
}

#[tokio::test]
async fn locks_do_not_move_and_end_with_what_they_are_on() {
    let scene = scene().await;
    let source = scene.lock("/d/f", &[ZERO]).await;
    let target = scene.lock("/e/h", &[ZERO]).await;
    is(&scene.ask("MOVE /d/f", &to("/dav/e/h"), "").await, 423);
    let one = shown(&source);
    let refused = scene.ask("MOVE /d/f", &[("destination", "/dav/e/h"), ("if", &one)], "").await;
    says(&refused, 423, &["/dav/e/h"]);
    let both = format!("<http://x/dav/d/f> (<{source}>) <http://x/dav/e/h> (<{target}>)");
    let headers = [("destination", "/dav/e/h"), ("if", &*both), ("host", "x")];
    is(&scene.ask("MOVE /d/f", &headers, "").await, 204);
    // The source is free, and the lock on the destination stays.
    is(&scene.put("/d/f", "free").await, 201);
    is(&scene.put("/e/h", "locked").await, 423);
    is(&scene.ask("DELETE /e/h", &[("if", &shown(&target))], "").await, 204);
    is(&scene.put("/e/h", "free").await, 201);
    let deep = scene.lock("/d", &[DEEP]).await;
    is(&scene.ask("DELETE /d", &[("if", &shown(&deep))], "").await, 204);
    is(&scene.plain("MKCOL /d").await, 201);
    is(&scene.put("/d/f", "free").await, 201);
}

#[tokio::test]
async fn a_copy_has_its_bounds() {
    let scene = Scene::with(|settings| settings.dialect.dav.tree_max = 3).await;
    is(&scene.plain("MKCOL /d").await, 201);
    for n in 0..4 {
        is(&scene.put(&format!("/d/{n}"), "x").await, 201);
    }
    let refused = scene.ask("COPY /d", &to("/dav/c"), "").await;
    says(&refused, 507, &["dav-tree-max", "more than 3"]);
    is(&scene.plain("GET /c").await, 404);
    is(&scene.plain("DELETE /d/0").await, 204);
    is(&scene.ask("COPY /d", &to("/dav/c"), "").await, 201);
}

#[tokio::test]
async fn copies_count_and_what_is_removed_does_not() {
    let scene = Scene::with(|settings| settings.dialect.files.quota = 100).await;
    is(&scene.plain("MKCOL /d").await, 201);
    is(&scene.put("/d/f", &"x".repeat(40)).await, 201);
    is(&scene.ask("COPY /d", &to("/dav/c"), "").await, 201);
    says(&scene.ask("COPY /d", &to("/dav/b"), "").await, 507, &["files-quota"]);
    is(&scene.plain("GET /b").await, 404);
    says(&scene.put("/g", &"x".repeat(40)).await, 507, &["files-quota"]);
    is(&scene.plain("DELETE /c").await, 204);
    is(&scene.put("/g", &"x".repeat(40)).await, 201);
    is(&scene.ask("MOVE /g", &to("/dav/d/f"), "").await, 204);
    is(&scene.put("/g", &"x".repeat(60)).await, 201);
}

#[tokio::test]
async fn what_a_server_left_unfinished_is_cleared_away() {
    let scene = Scene::new().await;
    let folder = scene.folder;
    scene.local.stop().await;
    let left = folder.path().join(".leasehold/incoming/7/a/b");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("c"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", left.join("link")).unwrap();
    let settings = leasehold_server::serve::Settings {
        files: Some(folder.path().into()),
        ..leasehold_testkit::settings(None)
    };
    let _local = leasehold_testkit::Local::start(settings).await;
    let incoming = folder.path().join(".leasehold/incoming");
    assert_eq!(std::fs::read_dir(incoming).unwrap().count(), 0);
    assert!(std::fs::exists("/etc/passwd").unwrap());
}
