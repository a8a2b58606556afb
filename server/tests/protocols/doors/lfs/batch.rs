//! Tests of the batch call, which refuses early whatever the later transfer would refuse.

use leasehold_testkit::{Method, Value, json};

use crate::doors::lfs::{Scene, batch_request, is, oid};

const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_object_is_told_what_to_do() {
    let scene = Scene::new().await;
    let there = scene.push(b"content").await;
    let batch = scene.batch("upload", &[(&there, 7), (NONE, 5), ("x", 1), (NONE, -1)]).await;
    is(&batch, 200);
    assert_eq!(
        (batch.text_of("transfer"), batch.text_of("hash_algo")),
        ("basic".into(), "sha256".into())
    );
    let objects = batch.get("objects");
    // This object is already stored.
    assert_eq!(objects[0], json!({"oid": there, "size": 7, "authenticated": true}));
    let upload = &objects[1]["actions"]["upload"];
    let href = format!("http://{}/lfs/team/app/objects/{NONE}", scene.local.address);
    assert_eq!((&upload["href"], &upload["expires_in"]), (&json!(href), &json!(3600)));
    assert_eq!(objects[1]["actions"]["verify"]["href"], format!("{href}/verify"));
    for refused in [&objects[2], &objects[3]] {
        assert_eq!(refused["error"]["code"], 422, "{refused}");
        assert!(refused.get("actions").is_none(), "{refused}");
    }
    let batch = scene.batch("download", &[(&there, 7), (NONE, 5), (&there, 8)]).await;
    let objects = batch.get("objects");
    assert!(objects[0]["actions"]["download"]["href"].is_string(), "{objects}");
    assert_eq!(objects[1]["error"]["code"], 404, "{objects}");
    assert_eq!(objects[2]["error"]["code"], 422, "{objects}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_cannot_do_is_said() {
    let scene = Scene::new().await;
    let with = |name: &str, value: Value| {
        let mut body = batch_request("upload", &[(NONE, 5)]);
        body[name] = value;
        body
    };
    for (body, word) in [
        (with("operation", json!("sideways")), "upload or download"),
        (with("transfers", json!(["tus"])), "supports only basic"),
        (with("hash_algo", json!("sha512")), "supports only sha256"),
    ] {
        let refused = scene.send("", "POST /lfs/team/app/objects/batch", body).await;
        is(&refused, 422);
        assert!(refused.text_of("message").contains(word), "{refused:?}");
    }
    is(
        &scene.send("", "POST /lfs/team/app/objects/batch", json!({"operation": "upload"})).await,
        400,
    );
    let plain = json!({"operation": "download", "objects": []});
    is(&scene.send("", "POST /lfs/team/app/objects/batch", plain).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_refused_before_it_comes() {
    let scene = Scene::with(|settings| {
        settings.dialect.files.quota = 1000;
        settings.dialect.lfs.object_bytes_max = 800;
    })
    .await;
    let one = "1".repeat(64);
    // The objects have to fit into the quota together.
    let batch = scene.batch("upload", &[(NONE, 600), (&one, 401), (&one, 801), (&one, 400)]).await;
    let objects = batch.get("objects").as_array().unwrap();
    let codes: Vec<_> = objects.iter().map(|object| object["error"]["code"].clone()).collect();
    assert_eq!(codes, [Value::Null, json!(507), json!(422), Value::Null], "{batch:?}");
    let message = |n: usize| objects[n]["error"]["message"].as_str().unwrap();
    assert!(message(1).contains("files-quota"), "{}", message(1));
    assert!(message(2).contains("lfs-object-bytes-max"), "{}", message(2));
    // An upload that does not fit is refused even without a batch call before it.
    let content = [7; 600];
    scene.push(&content).await;
    let more = [8; 600];
    let path = format!("/lfs/team/app/objects/{}", oid(&more));
    let put = |path: String, content: Vec<u8>| {
        scene.local.client.send_with(Method::PUT, path.leak(), &[], content)
    };
    let full = put(path.clone(), more.to_vec()).await.unwrap();
    is(&full, 507);
    is(&put(path, vec![8; 801]).await.unwrap(), 413);
    // Content of other repositories and dialects counts toward the same quota.
    let written = scene.local.client.post("/terraform/a", json!("x".repeat(600))).await.unwrap();
    is(&written, 507);
}
