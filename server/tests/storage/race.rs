//! Tests with many concurrent clients: never two holders, never a stale write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use leasehold_testkit::{Local, Response, folder, json};

/// The resource that a lock protects. It rejects a token that is lower than the highest one it has seen.
#[derive(Default)]
struct Downstream {
    newest: AtomicU64,
    in_use: AtomicBool,
    n_writes: AtomicU64,
    n_stale_refused: AtomicU64,
}

impl Downstream {
    fn write(&self, token: u64) -> bool {
        let accepted = self.newest.fetch_max(token, SeqCst) <= token;
        let counter = if accepted { &self.n_writes } else { &self.n_stale_refused };
        counter.fetch_add(1, SeqCst);
        accepted
    }
}

/// Repeats a request while the database is busy: a checkpoint can hold it for long while the disk is slow.
async fn repeated<F: Future<Output = Response>>(request: impl Fn() -> F) -> Response {
    loop {
        let answer = request().await;
        if !answer.text.contains("BUSY") {
            return answer;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_tasks_share_one_lock_through_ten_thousand_grants() {
    const TASKS: usize = 200;
    const GRANTS: u64 = 10_000;
    let data = folder();
    let local = Local::in_folder(data.path()).await;
    let downstream = Arc::new(Downstream::default());
    let n_grants = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for n in 0..TASKS {
        let (client, downstream, n_grants) =
            (local.client.clone(), downstream.clone(), n_grants.clone());
        tasks.push(tokio::spawn(async move {
            let owner = format!("task-{n}");
            let mut stale_token = None;
            while n_grants.load(SeqCst) < GRANTS {
                let more = || json!({"wait_ms": 600_000});
                let held = repeated(|| client.acquire("hot", &owner, 600_000, more())).await;
                assert_eq!(held.status, 200, "{held:?}");
                assert!(!downstream.in_use.swap(true, SeqCst), "two hold the lock");
                let token = held.number("fencing_token");
                // A write with the token of an earlier lease must never be accepted.
                if let Some(stale) = stale_token.replace(token) {
                    assert!(
                        !downstream.write(stale) || stale >= token,
                        "a stale write got through"
                    );
                }
                assert!(downstream.write(token), "a holder was taken for stale");
                n_grants.fetch_add(1, SeqCst);
                downstream.in_use.store(false, SeqCst);
                let released = repeated(|| client.release(&held, json!({}))).await;
                assert_eq!(released.status, 200);
            }
        }));
    }
    for task in tasks {
        task.await.expect("no task failed");
    }
    let n_grants = n_grants.load(SeqCst);
    assert!(n_grants >= GRANTS);
    assert_eq!(downstream.n_writes.load(SeqCst), downstream.newest.load(SeqCst));
    let state = local.client.get("/v1/locks/hot").await;
    assert_eq!(state.number("last_token"), n_grants, "one token for each grant");
    local.stop().await;
}
