//! Tests of one lock: acquiring, reading, extending and releasing it.

use leasehold_testkit::{Method, folder, json, settings};

use crate::doors::redis::{DELETE, EXPIRE, EXTEND, Scene, request, request_of};
use crate::doors::shown;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_set_once_until_it_expires() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client
        .check(
            r#"
            GET job => nil
            EXISTS job => 0
            PTTL job => -2
            TTL job => -2
            SET job me NX PX 10000 => OK
            SET job me NX PX 10000 => nil
            set job you px 10000 nx => nil
            GET job => "me"
            EXISTS job job other => 2
            PTTL job => 10000
            TTL job => 10
            "#,
        )
        .await;
    scene.local.advance_ms(9_600);
    client.check("PTTL job => 400\nTTL job => 0\nSET job you NX EX 5 => nil").await;
    scene.local.advance_ms(400);
    client.check("GET job => nil\nSET job you NX EX 5 => OK\nPTTL job => 5000").await;
    client.check("SETNX new me => 1\nSETNX new you => 0\nGET new => \"me\"\nPTTL new => -1").await;
    client.check("SET other me NX => OK\nPTTL other => -1\nTTL other => -1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_client_with_the_value_extends_and_deletes() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client
        .check(&format!(
            r#"
            SET job me NX PX 1000 => OK
            EVALSHA {DELETE} 1 job you => 0
            EVALSHA {EXPIRE} 1 job you 5000 => 0
            EVALSHA {EXTEND} 1 job you 5000 0 => 0
            EVALSHA {EXTEND} 1 job you 5000 1 => 0
            PTTL job => 1000
            EVALSHA {EXTEND} 1 job me 500 0 => 1
            PTTL job => 1500
            EVALSHA {EXTEND} 1 job me 700 1 => 1
            PTTL job => 700
            EVALSHA {EXPIRE} 1 job me 5000 => 1
            PTTL job => 5000
            EVALSHA f5f7bd3a3aa4a63c507c1155c5ea1219b350d992 1 job me => 5000
            EVALSHA f5f7bd3a3aa4a63c507c1155c5ea1219b350d992 1 job you => 0
            EVALSHA {DELETE} 1 job me => 1
            EVALSHA {DELETE} 1 job me => 0
            EVALSHA {EXPIRE} 1 job me 5000 => 0
            GET job => nil
            SET forever me NX => OK
            EVALSHA {EXTEND} 1 forever me 700 0 => 0
            EVALSHA {EXTEND} 1 forever me 700 1 => 0
            PTTL forever => -1
            EVALSHA {EXPIRE} 1 forever me 700 => 1
            PTTL forever => 700
            "#
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_may_be_sent_as_a_text() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client.check("SET job me NX PX 1000 => OK").await;
    let text = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
    let words = ["EVAL", text, "1", "job", "me"];
    client.send(&request_of(&words)).await;
    assert_eq!(client.read().await, "1");
    // `EVALSHA` accepts the hash that `SCRIPT LOAD` returned.
    client.send(&request_of(&["SCRIPT", "LOAD", text])).await;
    let sha = client.read().await.replace('"', "");
    client.check("SET job me NX PX 1000 => OK").await;
    client.check(&format!("SCRIPT EXISTS {sha} 00 => [1 0]\nEVALSHA {sha} 1 job me => 1")).await;
    client.send(&request_of(&["EVAL", "return redis.call('flushall')", "0"])).await;
    let answer = client.read().await;
    assert!(answer.starts_with("-ERR unknown script ") && answer.contains("no Lua"), "{answer}");
    client.send(&request_of(&["SCRIPT", "LOAD", "return 1"])).await;
    let answer = client.read().await;
    assert!(answer.contains("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn del_and_pexpire_need_no_value() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client
        .check(
            r#"
            SET a me NX PX 1000 => OK
            SET b me NX PX 1000 => OK
            DEL a b c => 2
            EXISTS a b => 0
            DEL a => 0
            PEXPIRE a 50 => 0
            SET a me NX => OK
            PEXPIRE a 50 => 1
            PTTL a => 50
            EXPIRE a 7 => 1
            PTTL a => 7000
            PEXPIRE a 0 => 1
            EXISTS a => 0
            "#,
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_beyond_a_limit_is_an_error_and_changes_nothing() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    let (key, value) = ("k".repeat(513), "v".repeat(257));
    let keys = vec!["k"; 65].join(" ");
    client
        .check(&format!(
            "SET {key} me NX PX 1000 => -ERR the key must have from 1 to 512 bytes (name-bytes-max)
             SET job {value} NX PX 1000 => -ERR the value must have from 1 to 256 bytes (owner-bytes-max)
             SET job me NX PX 86400001 => -ERR the expiry must be at most 1d (ttl-max)
             GET {key} => -ERR the key must have from 1 to 512 bytes (name-bytes-max)
             EVALSHA {DELETE} 1 job {value} => -ERR the value must have from 1 to 256 bytes (owner-bytes-max)
             DEL {keys} => -ERR the number of keys must be from 1 to 64 (group-max)
             EXISTS {keys} => -ERR the number of keys must be from 1 to 64 (group-max)
             EXISTS job => 0"
        ))
        .await;
    client.send(b"*2\r\n$3\r\nGET\r\n$1\r\n\xff\r\n").await;
    assert_eq!(client.read().await, "-ERR keys and values must be UTF-8 here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_outlives_its_connection_and_the_server() {
    let data = leasehold_testkit::folder();
    let scene = Scene::with(settings(Some(data.path())), |_| {}).await;
    scene.connect().await.check("SET job me NX PX 600000 => OK\nQUIT => OK").await;
    scene.connect().await.check("GET job => \"me\"").await;
    scene.local.stop().await;
    let scene = Scene::with(settings(Some(data.path())), |_| {}).await;
    let mut client = scene.connect().await;
    client.check(&format!("SET job you NX PX 1 => nil\nEVALSHA {DELETE} 1 job me => 1")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_survive_a_restart() {
    let data = folder();
    let scene = Scene::with(settings(Some(data.path())), |_| {}).await;
    let mut client = scene.connect().await;
    client.check("SET job me NX PX 60000 => OK\nSETNX other me => 1").await;
    scene.local.stop().await;
    let scene = Scene::with(settings(Some(data.path())), |_| {}).await;
    let mut client = scene.connect().await;
    let again = "GET job => \"me\"\nSET job you NX PX 5 => nil\nPTTL other => -1";
    client.check(&format!("{again}\nEVALSHA {DELETE} 1 job me => 1\nGET job => nil")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_pipeline_that_is_cut_off_what_came_whole_is_done() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    let mut bytes = request("SET whole me NX PX 60000");
    bytes.extend_from_slice(&request("SET half me NX PX 60000")[..30]);
    client.send(&bytes).await;
    assert_eq!(client.read().await, "OK");
    drop(client);
    let mut client = scene.connect().await;
    client.check("GET whole => \"me\"\nGET half => nil").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_dialect_shows_the_whole_value_of_a_lock() {
    let (value, secret) = ("f1a2b3c4d5e6f7a8b9c0", "d5e6f7a8");
    let held = async |namespace: &str, key: &str| {
        let scene = Scene::with(settings(None), |settings| {
            settings.dialect.redis.namespace = namespace.into();
        })
        .await;
        let put = scene.local.client.send(Method::PUT, "/dav/f.txt", None, "x".to_owned()).await;
        assert_eq!(put.unwrap().status, 201);
        let set = format!("SET {key} {value} NX PX 60000");
        assert_eq!(scene.connect().await.ask(&set).await, "OK");
        scene
    };
    let names = ["f1a2b3c4..."];
    let scene = held("default", "job").await;
    shown::check(&shown::by_name(&scene.local, "default", "job").await, &names, secret);
    // An expired lock does not show its value either.
    let set = format!("SET gone {value} NX PX 1");
    assert_eq!(scene.connect().await.ask(&set).await, "OK");
    scene.local.advance_ms(10);
    let taken = scene.local.client.post("/lock?client=c&job=gone", json!({})).await.unwrap();
    assert_eq!(taken.text_of("message"), "acquired from f1a2b3c4...");
    let scene = held("files", "/f.txt").await;
    shown::check(&shown::by_file(&scene.local, "/f.txt").await, &names, secret);
    let scene = held("lfs", "team/app/x").await;
    shown::check(&shown::by_repository(&scene.local, "team/app", "x").await, &names, secret);
}
