//! Tests of writing: only the lock's holder can write, and not after it lost the lock.

use leasehold_testkit::{json, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::doors::terraform::{A, B, Scene, info};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_is_locked_only_the_holder_writes() {
    let scene = Scene::new().await;
    scene.is(&scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    let written = scene.send(&format!("POST /terraform/prod?ID={A}"), "{\"serial\":1}").await;
    scene.is(&written, 200);
    assert_eq!(written.number("version"), 1);
    scene.is(&scene.send("POST /terraform/prod", "{}").await, 423);
    let refused = scene.send(&format!("PUT /terraform/prod?ID={B}"), "{}").await;
    scene.is(&refused, 409);
    assert!(refused.text_of("ID").contains("held by ann@laptop"), "{refused:?}");
    assert_eq!(scene.get("/terraform/prod").await.text, "{\"serial\":1}");
    scene.is(&scene.send("UNLOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    // A write with the id of an ended lock is refused, even if the lock is free.
    let refused = scene.send(&format!("POST /terraform/prod?ID={A}"), "{}").await;
    scene.is(&refused, 409);
    assert!(refused.text_of("error").contains("was lost"), "{refused:?}");
    // A write without a lock (`-lock=false`) acquires one for its duration.
    scene.is(&scene.send("POST /terraform/prod", "{\"serial\":2}").await, 200);
    scene.is(&scene.send("LOCK /terraform/prod", info(B, "bob@desk")).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_lost_during_the_upload_publishes_nothing() {
    let scene = Scene::new().await;
    scene.is(&scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    let mut upload = TcpStream::connect(scene.local.address).await.unwrap();
    let head = format!(
        "POST /terraform/prod?ID={A} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nConnection: close\r\n\r\n12345"
    );
    upload.write_all(head.as_bytes()).await.unwrap();
    // Wait until the upload has checked the lock and started its draft file.
    let revoke = json!({"reason": "test"});
    let is_uploading = async |client: &leasehold_testkit::Client| {
        client.get("/metrics").await.text.lines().any(|line| line == "leasehold_uploads 1")
    };
    scene.local.until("the upload has begun", is_uploading).await;
    let path = "/v1/namespaces/terraform/locks/prod/revoke";
    scene.is(&scene.local.client.post(path, revoke).await.unwrap(), 200);
    upload.write_all(b"67890").await.unwrap();
    let mut answer = String::new();
    upload.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
    scene.is(&scene.get("/terraform/prod").await, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_may_be_large_but_not_larger_than_allowed() {
    let scene = Scene::with(settings(None), |settings| {
        settings.dialect.terraform.state_bytes_max = 50 << 20;
    })
    .await;
    let large = "x".repeat(50 << 20);
    scene.is(&scene.send("POST /terraform/prod", large.clone()).await, 200);
    assert_eq!(scene.get("/terraform/prod").await.text.len(), large.len());
    let refused = scene.send("POST /terraform/prod", large + "y").await;
    scene.is(&refused, 413);
    assert!(refused.text.contains("terraform-state-bytes-max"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_and_files_share_one_quota() {
    let scene = Scene::with(settings(None), |settings| settings.dialect.files.quota = 1000).await;
    scene.is(&scene.send("POST /terraform/prod", "x".repeat(600)).await, 200);
    let refused = scene.send("POST /terraform/other", "x".repeat(600)).await;
    scene.is(&refused, 507);
    assert!(refused.text.contains("files-quota"), "{refused:?}");
    let session = scene.send("POST /auth/session", "").await.text_of("sessionId");
    let bearer = format!("Bearer {session}");
    let headers = [("authorization", bearer.as_str())];
    let put = leasehold_testkit::Method::PUT;
    let full = scene.local.client.send_with(put.clone(), "/a.txt", &headers, "x".repeat(600)).await;
    scene.is(&full.unwrap(), 507);
    let fits = scene.local.client.send_with(put, "/a.txt", &headers, "x".repeat(300)).await;
    scene.is(&fits.unwrap(), 201);
    // The server's internal files cannot be read as files.
    scene.is(&scene.get("/files/.leasehold/terraform/prod").await, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_damaged_on_the_way_changes_nothing() {
    let scene = Scene::new().await;
    let send = async |line: &str, md5: &str, body: &str| {
        let (method, path) = line.split_once(' ').unwrap();
        let method: leasehold_testkit::Method = method.parse().unwrap();
        let headers = [("content-md5", md5)];
        scene.local.client.send_with(method, path, &headers, body.to_owned()).await.unwrap()
    };
    // The MD5 sums of `{"serial":1}` and of `{"ID":"x"}`.
    let (of_state, of_info) = ("gx6MBZ08q5IljbRUUECeSw==", "bGWERLbJ4vg9K4Cm2SJlkg==");
    for (line, md5, body, status) in [
        ("POST /terraform/prod", of_state, "{\"serial\":2}", 400),
        ("POST /terraform/prod", "x", "{\"serial\":1}", 400),
        ("POST /terraform/prod", "eA==", "{\"serial\":1}", 400),
        ("GET /terraform/prod", of_state, "", 404),
        ("POST /terraform/prod", of_state, "{\"serial\":1}", 200),
        ("LOCK /terraform/prod", of_info, "{\"ID\":\"y\"}", 400),
        ("LOCK /terraform/prod", of_info, "{\"ID\":\"x\"}", 200),
        ("UNLOCK /terraform/prod", of_state, "{\"ID\":\"x\"}", 400),
        ("UNLOCK /terraform/prod", of_info, "{\"ID\":\"x\"}", 200),
    ] {
        let answer = send(line, md5, body).await;
        assert_eq!(answer.status, status, "{line} {md5}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_lost_and_had_again_is_another() {
    let scene = Scene::new().await;
    scene.is(&scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    let mut upload = TcpStream::connect(scene.local.address).await.unwrap();
    let head = format!(
        "POST /terraform/prod?ID={A} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\
         Connection: close\r\n\r\n"
    );
    upload.write_all(head.as_bytes()).await.unwrap();
    // The server requests the body only after it has checked the lock.
    let mut go_on = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    upload.read_exact(&mut go_on).await.unwrap();
    upload.write_all(b"12345").await.unwrap();
    scene.is(&scene.send("UNLOCK /terraform/prod", "").await, 200);
    scene.is(&scene.send("LOCK /terraform/prod", info(B, "bob@desk")).await, 200);
    scene.is(&scene.send(&format!("POST /terraform/prod?ID={B}"), "bob's").await, 200);
    scene.is(&scene.send("UNLOCK /terraform/prod", info(B, "bob@desk")).await, 200);
    scene.is(&scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    upload.write_all(b"67890").await.unwrap();
    let mut answer = String::new();
    upload.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
    assert_eq!(scene.get("/terraform/prod").await.text, "bob's");
    // With its current lock the client can write.
    scene.is(&scene.send(&format!("POST /terraform/prod?ID={A}"), "ann's").await, 200);
}
