//! Tests of WebDAV, the dialect `files` and the native dialect using the same files and locks.

use leasehold_testkit::{Method, Response, json};

use crate::doors::dav::{DEEP, EXCLUSIVE, Scene, ZERO, is, says, shown};

impl Scene {
    async fn session(&self) -> String {
        format!("Bearer {}", self.plain("POST =/auth/session").await.text_of("sessionId"))
    }

    async fn file(&self, session: &str, line: &str, body: &str) -> Response {
        let (method, path) = line.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let headers = [("authorization", session)];
        let sent = self.local.client.send_with(method, path, &headers, body.to_owned());
        sent.await.unwrap()
    }
}

#[tokio::test]
async fn a_lock_of_webdav_is_a_lock_to_files() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    is(&scene.file(&session, "PUT /f", "by files").await, 201);
    assert_eq!(scene.content("/f").await.as_deref(), Some("by files"));
    let token = scene.lock("/f", &[ZERO]).await;
    let refused = scene.file(&session, "PUT /f", "x").await;
    says(&refused, 423, &["alice at desk 5", "lockedAt", "expiresAt"]);
    is(&scene.file(&session, "DELETE /f", "").await, 423);
    is(&scene.file(&session, "GET /f?lock=acquire", "").await, 423);
    is(&scene.file(&session, "GET /f?lock=release", "").await, 423);
    is(&scene.ask("PUT /f", &[("if", &shown(&token))], "by dav").await, 204);
    is(&scene.ask("UNLOCK /f", &[("lock-token", &format!("<{token}>"))], "").await, 204);
    is(&scene.file(&session, "PUT /f", "x").await, 200);
}

#[tokio::test]
async fn a_deep_lock_of_webdav_covers_what_files_write() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    is(&scene.file(&session, "PUT /d/in/f", "1").await, 201);
    let held = scene.file(&session, "GET /d/in/f?lock=acquire", "").await;
    is(&held, 200);
    says(&scene.ask("LOCK /d", &[DEEP], EXCLUSIVE).await, 423, &["<D:href>/dav/d/in/f</D:href>"]);
    is(&scene.plain("DELETE /d").await, 423);
    is(&scene.file(&session, "GET /d/in/f?lock=release", "").await, 200);
    let deep = scene.lock("/d", &[DEEP]).await;
    for (line, status) in [
        ("PUT /d/in/f", 423),
        ("PUT /d/new/f", 423),
        ("POST /d/made/", 423),
        ("DELETE /d/in/f", 423),
        ("GET /d/in/f?lock=acquire", 423),
        ("GET /d/in/f", 200),
        ("PUT /e/f", 201),
    ] {
        let answer = scene.file(&session, line, "2").await;
        assert_eq!(answer.status, status, "{line}: {answer:?}");
    }
    let empty = scene.ask("MKCOL /d/empty", &[("if", &shown(&deep))], "").await;
    is(&empty, 201);
    is(&scene.file(&session, "DELETE /d/empty", "").await, 423);
    is(&scene.ask("UNLOCK /d", &[("lock-token", &format!("<{deep}>"))], "").await, 204);
    is(&scene.file(&session, "DELETE /d/empty", "").await, 204);
    is(&scene.file(&session, "PUT /d/in/f", "2").await, 200);
    // A lock on the directory itself keeps the dialect `files` from adding files too.
    scene.lock("/d", &[ZERO]).await;
    is(&scene.file(&session, "PUT /d/added", "2").await, 423);
    is(&scene.file(&session, "PUT /d/in/f", "3").await, 200);
    is(&scene.file(&session, "DELETE /d/in/f", "").await, 204);
}

#[tokio::test]
async fn a_lock_of_another_dialect_is_shown_and_its_token_is_of_no_use() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    is(&scene.file(&session, "PUT /f", "1").await, 201);
    is(&scene.file(&session, "GET /f?lock=acquire", "").await, 200);
    let body = "<propfind xmlns='DAV:'><prop><lockdiscovery/></prop></propfind>";
    let found = scene.ask("PROPFIND /f", &[ZERO], body).await;
    says(&found, 207, &["<D:activelock>", "opaquelocktoken:00000000-0000-0000-0000-"]);
    let at = found.text.find("opaquelocktoken:").unwrap();
    let token = &found.text[at..at + "opaquelocktoken:".len() + 36];
    is(&scene.ask("PUT /f", &[("if", &shown(token))], "x").await, 423);
    is(&scene.ask("UNLOCK /f", &[("lock-token", &format!("<{token}>"))], "").await, 403);
    is(&scene.ask("LOCK /f", &[("if", &shown(token))], "").await, 412);
    is(&scene.put("/f", "x").await, 423);
    // When the session ends, all parts of its lock end.
    is(&scene.file(&session, "DELETE /auth/session", "").await, 204);
    is(&scene.put("/f", "x").await, 204);
    scene.lock("/", &[DEEP]).await;
}

#[tokio::test]
async fn a_native_lock_keeps_webdav_out() {
    let scene = Scene::new().await;
    is(&scene.put("/f", "1").await, 201);
    let path = "/v1/namespaces/files/locks/%2Ff/acquire";
    let held = scene.local.client.post(path, json!({"owner_id": "ci-7", "ttl_ms": 60_000}));
    is(&held.await.unwrap(), 200);
    says(&scene.put("/f", "2").await, 423, &["ci-7", "<D:href>/dav/f</D:href>"]);
    says(&scene.ask("LOCK /f", &[ZERO], EXCLUSIVE).await, 423, &["no-conflicting-lock", "ci-7"]);
    is(&scene.plain("DELETE /f").await, 423);
}

#[tokio::test]
async fn the_topmost_folder_has_a_lock_like_any_other() {
    let scene = Scene::new().await;
    let body = json!({"reason": "test"});
    let revoke = async |name: &str| {
        let path = format!("/v1/namespaces/files/locks/{name}/revoke");
        scene.local.client.post(&path, body.clone()).await.unwrap()
    };
    scene.lock("/", &[DEEP]).await;
    let refused = scene.put("/x", "1").await;
    says(&refused, 423, &["<D:href>/dav/</D:href>", ">/ is locked by alice"]);
    let listed = scene.plain("GET =/admin/locks").await;
    assert_eq!(listed.get("locks")[0]["path"], "/", "{listed:?}");
    assert_eq!(listed.get("locks").as_array().unwrap().len(), 1, "{listed:?}");
    is(&scene.plain("DELETE =/admin/locks/").await, 200);
    is(&scene.put("/x", "1").await, 201);
    // A revoke ends the lock with exactly this name. The internal names of tree locks are not listed and cannot be
    // revoked.
    let root = scene.lock("/", &[ZERO]).await;
    let file = scene.lock("/x", &[ZERO]).await;
    for (name, told) in
        [("%2F%2F", "\\\"//\\\""), ("%2Ft%2F", "\\\"/t/\\\""), ("%2F%2F.", "\\\"//.\\\"")]
    {
        says(&revoke(name).await, 400, &["not the lock of a file or folder", told]);
    }
    let ended = revoke("%2F").await;
    is(&ended, 200);
    assert_eq!(ended.get("revoked").as_array().unwrap().len(), 1, "{ended:?}");
    is(&scene.ask("UNLOCK /", &[("lock-token", &format!("<{root}>"))], "").await, 409);
    is(&scene.put("/x", "2").await, 423);
    is(&scene.ask("PUT /x", &[("if", &shown(&file))], "2").await, 204);
}

#[tokio::test]
async fn some_programs_ask_at_the_root_of_the_server_first() {
    let scene = Scene::new().await;
    let asked = scene.plain("OPTIONS =/").await;
    is(&asked, 200);
    assert_eq!(asked.headers["dav"], "1, 2");
    assert_eq!(asked.headers["ms-author-via"], "DAV");
    let off = Scene::with(|settings| {
        settings.dialects = vec![leasehold_server::dialect::Dialect::Files];
    })
    .await;
    is(&off.plain("OPTIONS =/").await, 405);
}
