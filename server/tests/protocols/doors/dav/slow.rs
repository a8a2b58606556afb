//! Tests of uploads that lose their lock while the body arrives.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::doors::dav::{MINUTE_MS, Scene, ZERO, is, says, shown};

/// Starts an upload of four bytes and sends the first two.
async fn begin(scene: &Scene, path: &str, list: &str) -> TcpStream {
    let mut stream = TcpStream::connect(scene.local.address).await.unwrap();
    let list = if list.is_empty() { String::new() } else { format!("if: {list}\r\n") };
    let head = format!(
        "PUT /dav{path} HTTP/1.1\r\nhost: x\r\n{list}content-length: 4\r\nconnection: close\r\n\r\nla"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn finish(mut stream: TcpStream) -> String {
    stream.write_all(b"te").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Waits until the upload holds its locks. Only then does its draft file exist.
async fn until_held(scene: &Scene) {
    let n_drafts = || std::fs::read_dir(scene.on_disk(".leasehold/incoming")).unwrap().count();
    scene.local.until("the upload has begun", async |_| n_drafts() == 1).await;
}

#[tokio::test]
async fn an_upload_whose_lock_expires_writes_nothing() {
    let scene = Scene::new().await;
    is(&scene.put("/f", "old").await, 201);
    let token = scene.lock("/f", &[ZERO, ("timeout", "Second-600")]).await;
    let slow = begin(&scene, "/f", &shown(&token)).await;
    until_held(&scene).await;
    scene.local.advance_ms(11 * MINUTE_MS);
    is(&scene.put("/f", "theirs").await, 204);
    let answer = finish(slow).await;
    assert!(answer.starts_with("HTTP/1.1 423"), "{answer}");
    assert!(answer.contains("was lost") && answer.contains("/dav/f"), "{answer}");
    assert_eq!(scene.content("/f").await.as_deref(), Some("theirs"));
}

#[tokio::test]
async fn an_upload_whose_lock_is_released_or_revoked_writes_nothing() {
    let scene = Scene::new().await;
    is(&scene.plain("MKCOL /d").await, 201);
    is(&scene.put("/d/f", "old").await, 201);
    for (path, unlock) in [("/d/f", true), ("/d/f", false), ("/d", true), ("/d", false)] {
        let token = scene.lock(path, &[("depth", "infinity")]).await;
        let slow = begin(&scene, "/d/f", &shown(&token)).await;
        until_held(&scene).await;
        let ended = if unlock {
            let header = format!("<{token}>");
            scene.ask(&format!("UNLOCK {path}"), &[("lock-token", &header)], "").await
        } else {
            scene.plain(&format!("DELETE =/admin/locks{path}")).await
        };
        assert!(ended.status < 300, "{ended:?}");
        let answer = finish(slow).await;
        assert!(answer.starts_with("HTTP/1.1 423"), "{path}: {answer}");
        assert_eq!(scene.content("/d/f").await.as_deref(), Some("old"));
    }
}

#[tokio::test]
async fn an_upload_without_a_lock_holds_one_of_its_own() {
    let scene = Scene::new().await;
    is(&scene.plain("MKCOL /d").await, 201);
    is(&scene.put("/d/f", "old").await, 201);
    let slow = begin(&scene, "/d/f", "").await;
    until_held(&scene).await;
    for refused in [scene.put("/d/f", "other").await, scene.plain("DELETE /d").await] {
        let told = ["another request is changing /d/f (webdav PUT)", "<D:href>/dav/d/f</D:href>"];
        says(&refused, 423, &told);
    }
    let answer = finish(slow).await;
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert_eq!(scene.content("/d/f").await.as_deref(), Some("late"));
    is(&scene.plain("DELETE /d").await, 204);
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing_locked() {
    let scene = Scene::new().await;
    is(&scene.put("/f", "old").await, 201);
    let slow = begin(&scene, "/f", "").await;
    until_held(&scene).await;
    drop(slow);
    scene
        .local
        .until("the lock is free", async |_| scene.put("/f", "new").await.status == 204)
        .await;
    let left = std::fs::read_dir(scene.on_disk(".leasehold/incoming")).unwrap().count();
    assert_eq!(left, 0);
}
