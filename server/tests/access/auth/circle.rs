//! Tests that a deadlock report names only the locks its reader may read, and that it mentions that there are others.

use leasehold_testkit::{Value, json};

use crate::auth::{NAMES, RULES, Scene};

const PAY: &str = r#"
[[rule]]
name = "half"
who = ["key:nothing"]
may = ["read"]
namespaces = ["default"]
locks = ["pay/*"]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circle_shows_only_the_locks_its_reader_may_read() {
    let scene = Scene::with(&format!("{RULES}{PAY}"), &NAMES, |_| {}).await;
    let lock = |lock: &str, owner: &str, wait_ms: u64| {
        let line = format!("POST /v1/locks/{}/acquire", lock.replace('/', "%2F"));
        (line, json!({"owner_id": owner, "ttl_ms": 600_000, "wait_ms": wait_ms}))
    };
    let story = async {
        for (name, owner) in [("pay/a", "x"), ("secret-lock", "y")] {
            let (line, body) = lock(name, owner, 0);
            assert_eq!(scene.send("taker", &line, body).await.status, 200);
        }
        scene
            .local
            .until("both wait", async |_| {
                let list = scene.send("admin", "GET /v1/locks", Value::Null).await;
                let waiting = |lock: &Value| lock["n_waiting"] == 1;
                let locks = list.body["locks"].as_array().expect("locks").clone();
                locks.iter().filter(|lock| waiting(lock)).count() == 2
            })
            .await;
        scene.local.advance_ms(1100);
        let history = "GET /v1/locks/pay%2Fa/history";
        scene
            .local
            .until("it is suspected", async |_| {
                scene.send("taker", "GET /v1/locks/pay%2Fa", Value::Null).await;
                let past = scene.send("admin", history, Value::Null).await.text;
                past.contains("deadlock_suspected")
            })
            .await;
        let whole = "y waits for pay/a because of x; x waits for secret-lock because of y";
        let half =
            "y waits for pay/a because of x; another client waits for a lock that may not be read";
        for (who, expected) in [("admin", whole), ("reader", whole), ("nothing", half)] {
            let past = scene.send(who, history, Value::Null).await;
            let events = past.body["events"].as_array().expect("events").clone();
            let noted = events.iter().find(|event| event["kind"] == "deadlock_suspected");
            assert_eq!(noted.expect("one")["reason"], expected, "{who}");
            // The same report, read live from the event stream.
            let proof = scene.proof(who).remove(0);
            let headers = [(proof.0, proof.1.as_str()), ("last-event-id", FIRST)];
            let told = scene.stream(&headers, "GET /v1/events", "deadlock_suspected").await;
            assert!(told.contains(expected), "{who}: {told}");
            assert_eq!(told.contains("secret-lock"), who != "nothing", "{who}: {told}");
        }
    };
    let waits = async {
        scene
            .local
            .until("both are held", async |_| {
                scene.send("admin", "GET /v1/locks?state=held", Value::Null).await.body["locks"]
                    .as_array()
                    .is_some_and(|locks| locks.len() == 2)
            })
            .await;
        let ((first, one), (second, two)) =
            (lock("secret-lock", "x", 600_000), lock("pay/a", "y", 600_000));
        tokio::join!(scene.send("taker", &first, one), scene.send("taker", &second, two));
    };
    tokio::select! {
        () = story => {}
        () = waits => panic!("neither gets its lock"),
    }
    scene.stop().await;
}

/// Event id from before all events that the server knows.
const FIRST: &str = "0-0-0";
