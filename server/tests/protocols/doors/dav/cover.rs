//! Tests of locks on whole directory trees (`Depth: infinity`), and of requests that meet such a lock.

use leasehold_testkit::json;

use crate::doors::dav::{DEEP, EXCLUSIVE, SHARED, Scene, ZERO, is, says, shown, token};

async fn scene() -> Scene {
    let scene = Scene::new().await;
    for folder in ["/d", "/d/in", "/e"] {
        is(&scene.plain(&format!("MKCOL {folder}")).await, 201);
    }
    for file in ["/d/f", "/d/in/g", "/e/h", "/top"] {
        is(&scene.put(file, "1").await, 201);
    }
    scene
}

#[tokio::test]
async fn a_deep_lock_covers_what_is_in_the_folder_and_nothing_else() {
    let scene = scene().await;
    let deep = scene.lock("/d", &[DEEP]).await;
    for path in ["/d/f", "/d/in/g", "/d/new", "/d/in/new"] {
        says(&scene.put(path, "2").await, 423, &["<D:href>/dav/d</D:href>", "alice"]);
        is(&scene.ask(&format!("LOCK {path}"), &[ZERO], EXCLUSIVE).await, 423);
        is(&scene.ask(&format!("LOCK {path}"), &[ZERO], SHARED).await, 423);
    }
    for line in ["DELETE /d/f", "DELETE /d/in", "DELETE /d", "MKCOL /d/more"] {
        is(&scene.plain(line).await, 423);
    }
    is(&scene.ask("MOVE /top", &[("destination", "/dav/d/top")], "").await, 423);
    is(&scene.ask("MOVE /d/f", &[("destination", "/dav/f")], "").await, 423);
    is(&scene.ask("COPY /d/f", &[("destination", "/dav/f")], "").await, 201);
    is(&scene.put("/e/h", "2").await, 204);
    is(&scene.put("/top", "2").await, 204);
    // The token is valid for members of the directory, whether it is tagged with the root, as the neon library does, or
    // untagged.
    let tagged = format!("<http://x/dav/d/> (<{deep}>)");
    for with in [shown(&deep), tagged] {
        is(&scene.ask("PUT /d/in/g", &[("if", &with), ("host", "x")], "2").await, 204);
    }
    is(&scene.ask("LOCK /d/in/g", &[("if", &shown(&deep))], "").await, 200);
    is(&scene.ask("UNLOCK /d/in/g", &[("lock-token", &format!("<{deep}>"))], "").await, 204);
    is(&scene.put("/d/f", "3").await, 204);
}

#[tokio::test]
async fn a_deep_lock_is_refused_while_something_inside_is_locked() {
    let scene = scene().await;
    let inner = scene.lock("/d/in/g", &[ZERO]).await;
    for folder in ["/", "/d", "/d/in"] {
        let line = format!("LOCK {folder}");
        says(&scene.ask(&line, &[DEEP], EXCLUSIVE).await, 423, &["<D:href>/dav/d/in/g</D:href>"]);
        is(&scene.ask(&line, &[DEEP], SHARED).await, 423);
        // The directory itself can be locked with `Depth: 0`.
        let token = token(&scene.ask(&line, &[ZERO], EXCLUSIVE).await);
        is(
            &scene
                .ask(&format!("UNLOCK {folder}"), &[("lock-token", &format!("<{token}>"))], "")
                .await,
            204,
        );
    }
    says(&scene.plain("DELETE /d").await, 423, &["/dav/d/in/g"]);
    says(&scene.ask("MOVE /d", &[("destination", "/dav/x")], "").await, 423, &["/dav/d/in/g"]);
    scene.lock("/e", &[DEEP]).await;
    is(&scene.ask("UNLOCK /d/in/g", &[("lock-token", &format!("<{inner}>"))], "").await, 204);
    scene.lock("/d", &[DEEP]).await;
    is(&scene.ask("LOCK /", &[DEEP], EXCLUSIVE).await, 423);
}

#[tokio::test]
async fn shared_deep_locks_stand_beside_shared_ones_inside() {
    let scene = scene().await;
    let one = token(&scene.ask("LOCK /d", &[DEEP], SHARED).await);
    let two = token(&scene.ask("LOCK /d", &[DEEP], SHARED).await);
    let inner = token(&scene.ask("LOCK /d/f", &[ZERO], SHARED).await);
    let outer = token(&scene.ask("LOCK /", &[DEEP], SHARED).await);
    is(&scene.ask("LOCK /d/f", &[ZERO], EXCLUSIVE).await, 423);
    is(&scene.ask("LOCK /d/in", &[DEEP], EXCLUSIVE).await, 423);
    is(&scene.put("/d/in/g", "2").await, 423);
    is(&scene.put("/e/h", "2").await, 423);
    for (path, token) in [("/d", &one), ("/d", &two), ("/d/f", &inner), ("/", &outer)] {
        let header = format!("<{token}>");
        is(&scene.ask(&format!("UNLOCK {path}"), &[("lock-token", &header)], "").await, 204);
    }
    is(&scene.put("/d/in/g", "2").await, 204);
    scene.lock("/", &[DEEP]).await;
}

#[tokio::test]
async fn a_lock_on_a_folder_itself_keeps_its_list_as_it_is() {
    let scene = scene().await;
    let own = scene.lock("/d", &[ZERO]).await;
    for line in ["MKCOL /d/x", "DELETE /d/f", "PUT /d/new"] {
        says(&scene.plain(line).await, 423, &["/dav/d<"]);
    }
    is(&scene.ask("MOVE /d/f", &[("destination", "/dav/f")], "").await, 423);
    is(&scene.ask("LOCK /d/new", &[ZERO], EXCLUSIVE).await, 423);
    // Files in the directory can be changed.
    is(&scene.put("/d/f", "2").await, 204);
    is(&scene.put("/d/in/new", "2").await, 201);
    let with = shown(&own);
    let tagged = format!("<http://x/dav/d> (<{own}>)");
    is(&scene.ask("PUT /d/new", &[("if", &tagged), ("host", "x")], "2").await, 201);
    is(&scene.ask("DELETE /d", &[("if", &with)], "").await, 204);
    is(&scene.plain("MKCOL /d").await, 201);
}

#[tokio::test]
async fn trees_are_not_listed_as_locks() {
    let scene = scene().await;
    scene.lock("/d", &[DEEP]).await;
    scene.lock("/e/h", &[ZERO]).await;
    let native = scene.plain("GET =/v1/namespaces/files/locks?state=held").await;
    let names = |list: &serde_json::Value, member: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|lock| lock[member].as_str().unwrap().into()).collect()
    };
    assert_eq!(names(native.get("locks"), "lock_name"), ["/d", "/e/h"], "{native:?}");
    let files = scene.plain("GET =/admin/locks").await;
    assert_eq!(names(files.get("locks"), "path"), ["/d", "/e/h"], "{files:?}");
    // A native client can use such a name. It is then a lock like any other.
    let acquired = scene.local.client.post(
        "/v1/namespaces/files/locks/%2Fzz%2F/acquire",
        json!({"owner_id": "o", "ttl_ms": 60_000}),
    );
    is(&acquired.await.unwrap(), 200);
    let native = scene.plain("GET =/v1/namespaces/files/locks?state=held").await;
    assert_eq!(names(native.get("locks"), "lock_name"), ["/d", "/e/h", "/zz/"], "{native:?}");
}

#[tokio::test]
async fn a_lock_taken_away_is_gone_with_all_its_parts() {
    let scene = scene().await;
    for revoke in ["POST =/v1/namespaces/files/locks/%2Fd/revoke", "DELETE =/admin/locks/d"] {
        let deep = scene.lock("/d", &[DEEP]).await;
        let body = json!({"reason": "test"}).to_string();
        let revoked = scene.ask(revoke, &[("content-type", "application/json")], body).await;
        is(&revoked, 200);
        is(&scene.put("/d/in/g", "2").await, 204);
        is(&scene.ask("PUT /d/f", &[("if", &shown(&deep))], "2").await, 412);
    }
}

#[tokio::test]
async fn a_path_that_is_too_deep_is_refused() {
    let scene = Scene::with(|settings| settings.engine.limits.group_max = 4).await;
    is(&scene.plain("MKCOL /a").await, 201);
    is(&scene.plain("MKCOL /a/b").await, 201);
    // The file's lock takes four leases: the file, the trees `/` and `/a`, and the directory `/a` to which it is added.
    is(&scene.put("/a/f", "1").await, 201);
    says(&scene.put("/a/b/f", "1").await, 400, &["too deep", "group-max"]);
    says(&scene.ask("LOCK /a/b/f", &[ZERO], EXCLUSIVE).await, 201, &["/dav/a/b/f"]);
}

#[tokio::test]
async fn as_many_share_a_lock_on_one_file_as_may_and_the_error_says_so() {
    let scene = Scene::with(|settings| settings.engine.limits.holders_max = 2).await;
    let one = token(&scene.ask("LOCK /one", &[ZERO], SHARED).await);
    is(&scene.ask("LOCK /one", &[ZERO], SHARED).await, 200);
    let full = scene.ask("LOCK /one", &[ZERO], SHARED).await;
    says(&full, 429, &["too many shared locks", "holders-max", "limit: 2"]);
    // The number of shared locks on one file does not limit locks on other files.
    for path in ["/two", "/three", "/four"] {
        is(&scene.ask(&format!("LOCK {path}"), &[ZERO], SHARED).await, 201);
        is(&scene.put(&format!("{path}-file"), "x").await, 201);
    }
    is(&scene.ask("UNLOCK /one", &[("lock-token", &format!("<{one}>"))], "").await, 204);
    is(&scene.ask("LOCK /one", &[ZERO], SHARED).await, 200);
}

#[tokio::test]
async fn a_lock_on_a_folder_shared_with_others_keeps_its_list_as_it_is() {
    let scene = scene().await;
    let one = token(&scene.ask("LOCK /d", &[ZERO], SHARED).await);
    let two = token(&scene.ask("LOCK /d", &[ZERO], SHARED).await);
    is(&scene.put("/d/new", "1").await, 423);
    is(&scene.put("/d/f", "2").await, 204);
    // With one of the tokens, the directory can be changed.
    let tagged = format!("<http://x/dav/d> (<{one}>)");
    is(&scene.ask("PUT /d/new", &[("if", &tagged), ("host", "x")], "2").await, 201);
    for token in [one, two] {
        let header = format!("<{token}>");
        is(&scene.ask("UNLOCK /d", &[("lock-token", &header)], "").await, 204);
    }
    is(&scene.put("/d/newer", "1").await, 201);
}
