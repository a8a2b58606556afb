//! Tests of lists of locks: pages, filters by path or id, and own locks separate from others'.

use leasehold_testkit::{Response, Value, json};

use crate::doors::lfs::{Scene, id_of, is};

fn paths(response: &Response, member: &str) -> Vec<String> {
    let locks = response.get(member).as_array().expect("locks").iter();
    locks.map(|lock| lock["path"].as_str().expect("a path").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_lead_on_to_the_end() {
    let scene = Scene::new().await;
    let mut all = Vec::new();
    for n in 0..7 {
        let (who, path) = (if n % 2 == 0 { "alice" } else { "bob" }, format!("{n}.bin"));
        is(&scene.lock(who, &path).await, 201);
        all.push(path);
    }
    let (mut seen, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let mut cursor = String::new();
    loop {
        let page = scene.locks(&format!("?limit=2&cursor={cursor}&refspec=refs/heads/main")).await;
        is(&page, 200);
        assert!(paths(&page, "locks").len() <= 2, "{page:?}");
        seen.extend(paths(&page, "locks"));
        cursor = page.text_of("next_cursor");
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(seen, all);
    loop {
        let body = json!({"cursor": cursor, "limit": 3, "ref": {"name": "refs/heads/main"}});
        let page = scene.send("alice", "POST /lfs/team/app/locks/verify", body).await;
        is(&page, 200);
        ours.extend(paths(&page, "ours"));
        theirs.extend(paths(&page, "theirs"));
        cursor = page.text_of("next_cursor");
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(ours, ["0.bin", "2.bin", "4.bin", "6.bin"]);
    assert_eq!(theirs, ["1.bin", "3.bin", "5.bin"]);
    assert_eq!(paths(&scene.locks("?limit=18446744073709551615").await, "locks"), all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_is_found_by_its_path_or_its_id() {
    let scene = Scene::new().await;
    let id = id_of(&scene.lock("alice", "a b/ü.bin").await);
    is(&scene.lock("bob", "y.bin").await, 201);
    for (query, found) in [
        ("?path=a%20b/%C3%BC.bin", true),
        ("?path=a+b%2F%C3%BC.bin", true),
        (&format!("?id={id}"), true),
        (&format!("?id={id}&path=a+b/%C3%BC.bin"), true),
        (&format!("?id={id}&path=y.bin"), false),
        ("?path=z.bin", false),
        ("?id=x", false),
        ("?id=999", false),
    ] {
        let seen = scene.locks(query).await;
        is(&seen, 200);
        let expected: &[&str] = if found { &["a b/ü.bin"] } else { &[] };
        assert_eq!(paths(&seen, "locks"), expected, "{query}");
    }
    is(&scene.locks("?path=../x").await, 422);
    let empty = scene.send("", "GET /lfs/none/locks", Value::Null).await;
    assert_eq!(*empty.get("locks"), json!([]), "{empty:?}");
}
