//! Tests of objects: checked against their names, stored atomically, read in full or in part.

use leasehold_testkit::{Method, Response, folder, json, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::doors::lfs::{Scene, is, oid};

async fn get(scene: &Scene, oid: &str, headers: &[(&str, &str)]) -> Response {
    let path = format!("/lfs/team/app/objects/{oid}");
    scene.local.client.send_with(Method::GET, &path, headers, "").await.unwrap()
}

async fn put(scene: &Scene, oid: &str, content: &[u8]) -> Response {
    let path = format!("/lfs/team/app/objects/{oid}");
    let kind = [("content-type", "application/octet-stream")];
    scene.local.client.send_with(Method::PUT, &path, &kind, content.to_vec()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_what_its_name_says_or_nothing() {
    let scene = Scene::new().await;
    let name = oid(b"content");
    let refused = put(&scene, &name, b"other").await;
    is(&refused, 422);
    let message = refused.text_of("message");
    assert!(message.contains(&oid(b"other")) && message.contains(&name), "{message}");
    is(&get(&scene, &name, &[]).await, 404);
    is(&put(&scene, &name, b"content").await, 200);
    is(&put(&scene, &name, b"content").await, 200);
    let found = get(&scene, &name, &[]).await;
    assert_eq!((found.status, found.text.as_str()), (200, "content"));
    for wrong in ["x", &name.to_uppercase(), &name[1..], &format!("{name}0")] {
        is(&put(&scene, wrong, b"content").await, 422);
        is(&get(&scene, wrong, &[]).await, 422);
    }
    // The object belongs to this repository only.
    let other = scene.local.client.get(&format!("/lfs/team/other/objects/{name}")).await;
    is(&other, 404);
    is(&put(&scene, &oid(b""), b"").await, 200);
    assert_eq!(get(&scene, &oid(b""), &[]).await.status, 200);
    for (said, size, status) in [(&name, 7, 200), (&name, 8, 422), (&oid(b"x"), 7, 422)] {
        let body = json!({"oid": said, "size": size});
        let line = format!("POST /lfs/team/app/objects/{name}/verify");
        is(&scene.send("", &line, body).await, status);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_goes_on_where_it_broke_off() {
    let scene = Scene::new().await;
    let content: String = (0..1000).map(|n| format!("{n} ")).collect();
    let name = scene.push(content.as_bytes()).await;
    let batch = scene.batch("download", &[(&name, content.len() as i64)]).await;
    let action = batch.get("objects")[0]["actions"]["download"].clone();
    assert_eq!(scene.act(Method::GET, &action, &[], b"").await.text, content);
    let rest = scene.act(Method::GET, &action, &[("range", "bytes=100-")], b"").await;
    is(&rest, 206);
    assert_eq!(rest.text, content[100..]);
    let expected = format!("bytes 100-{}/{}", content.len() - 1, content.len());
    assert_eq!(rest.headers["content-range"], *expected);
    let beyond = scene.act(Method::GET, &action, &[("range", "bytes=99999-")], b"").await;
    is(&beyond, 416);
    assert_eq!(beyond.headers["content-range"], *format!("bytes */{}", content.len()));
    assert!(beyond.text_of("message").contains("bytes"), "{beyond:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let data = folder();
    let scene = Scene::with(|given| *given = settings(Some(data.path()))).await;
    let name = oid(b"1234567890");
    let mut upload = TcpStream::connect(scene.local.address).await.unwrap();
    let head = format!(
        "PUT /lfs/team/app/objects/{name} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345"
    );
    upload.write_all(head.as_bytes()).await.unwrap();
    let incoming = data.path().join("files/.leasehold/incoming");
    let n_drafts = || std::fs::read_dir(&incoming).unwrap().count();
    scene.local.until("the upload has begun", async |_| n_drafts() == 1).await;
    drop(upload);
    scene.local.until("its draft is gone", async |_| n_drafts() == 0).await;
    is(&get(&scene, &name, &[]).await, 404);
    is(&put(&scene, &name, b"1234567890").await, 200);
    scene.local.stop().await;
    let scene = Scene::with(|given| *given = settings(Some(data.path()))).await;
    assert_eq!(get(&scene, &name, &[]).await.text, "1234567890", "it survives a restart");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_object_that_comes_twice_at_once_counts_once() {
    let scene = Scene::with(|settings| settings.dialect.files.quota = 10_000).await;
    let (content, name) = ([3; 3000], oid(&[3; 3000]));
    let (one, other) = tokio::join!(put(&scene, &name, &content), put(&scene, &name, &content));
    is(&one, 200);
    is(&other, 200);
    let metrics = scene.local.client.get("/metrics").await.text;
    assert!(metrics.contains("files_bytes 3000"), "{metrics}");
}

/// The refusal must arrive although the server closes the connection without reading the body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_too_large_is_refused_before_it_comes() {
    let scene = Scene::with(|settings| settings.dialect.lfs.object_bytes_max = 100).await;
    let mut upload = TcpStream::connect(scene.local.address).await.unwrap();
    let name = oid(b"");
    let head = format!(
        "PUT /lfs/a/objects/{name} HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\nConnection: close\r\n\r\n"
    );
    upload.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    upload.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.contains("lfs-object-bytes-max"),
        "{answer}"
    );
}
