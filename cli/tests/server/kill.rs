//! `kill -9` at any moment: every acknowledged request is still in effect afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Process, Response, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const N_CLIENTS: usize = 12;
/// Minimum of acknowledged requests: fewer would prove too little.
const N_ACKNOWLEDGED_MIN: u64 = 1000;

/// What a client knows about a lock that only this client uses.
#[derive(Clone, Default)]
enum Known {
    /// The release of the last lease was acknowledged, or there was no lease yet.
    #[default]
    Free,
    /// This grant was acknowledged, and no request was sent since.
    Held(Response),
    /// A request got no response.
    Unknown,
}

#[derive(Default)]
struct Ledger {
    locks: BTreeMap<String, Known>,
    /// The highest acknowledged token of each lock.
    tokens: BTreeMap<String, u64>,
    n_acknowledged: u64,
    n_unknown: u64,
}

/// A generator of random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

async fn work(client: Client, ledger: Arc<Mutex<Ledger>>, n: usize) {
    let owner = format!("client-{n}");
    for round in 0.. {
        let lock = format!("lock-{n}-{}", round % 5);
        let known = ledger.lock().unwrap().locks.get(&lock).cloned().unwrap_or_default();
        let answer = match &known {
            Known::Held(held) => {
                ledger.lock().unwrap().locks.insert(lock.clone(), Known::Unknown);
                client.try_release(held, json!({})).await
            }
            Known::Free => {
                ledger.lock().unwrap().locks.insert(lock.clone(), Known::Unknown);
                client.try_acquire(&lock, &owner, 600_000, json!({})).await
            }
            Known::Unknown => continue,
        };
        let mut ledger = ledger.lock().unwrap();
        let Ok(answer) = answer else {
            ledger.n_unknown += 1;
            return;
        };
        assert_eq!(answer.status, 200, "{answer:?}");
        ledger.n_acknowledged += 1;
        let now = match known {
            Known::Free => {
                let token = answer.number("fencing_token");
                let last = ledger.tokens.insert(lock.clone(), token);
                assert!(last < Some(token), "{lock}: token {token} after {last:?}");
                Known::Held(answer)
            }
            _ => Known::Free,
        };
        ledger.locks.insert(lock, now);
    }
}

/// Compares the state after a restart with the responses that clients got before it.
async fn check(client: &Client, ledger: &mut Ledger) {
    for (lock, known) in &mut ledger.locks {
        let state = client.get(&format!("/v1/locks/{lock}")).await;
        let token = ledger.tokens.get(lock).copied().unwrap_or(0);
        assert!(state.number("last_token") >= token, "{lock}: {state:?} forgot token {token}");
        match known {
            Known::Held(held) => {
                assert_eq!(
                    state.get("fencing_token"),
                    held.get("fencing_token"),
                    "{lock}: {state:?}"
                );
                let renewed = client.renew(held, 600_000, json!({})).await;
                assert_eq!(renewed.status, 200, "{lock}: {renewed:?}");
            }
            Known::Free => assert_eq!(state.get("held"), false, "{lock}: {state:?}"),
            Known::Unknown => {
                // The lock can be held or free. Revoking it makes its state known again.
                let reason = json!({"reason": "the client does not know"});
                let revoked = client.post(&format!("/v1/locks/{lock}/revoke"), reason).await;
                assert_eq!(revoked.expect("an answer").status, 200);
                *known = Known::Free;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_under_load_lose_nothing_that_was_acknowledged() {
    let mut random = Random(leasehold_testkit::seed("SEED"));
    let data = folder();
    let data = data.path().join("data");
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    for round in 0..50 {
        // In every other round, the journal is folded without a pause, so that kills hit folds too.
        let fold = if round % 2 == 0 { "--fold-interval=1ms" } else { "--fold-interval=5s" };
        let server = Process::start(BINARY, &data, &[fold]);
        let mut taken = std::mem::take(&mut *ledger.lock().unwrap());
        check(&server.client, &mut taken).await;
        *ledger.lock().unwrap() = taken;
        let client = |n| work(server.client.clone(), ledger.clone(), n);
        let tasks: Vec<_> = (0..N_CLIENTS).map(|n| tokio::spawn(client(n))).collect();
        tokio::time::sleep(Duration::from_millis(random.below(60))).await;
        // On a busy machine, the last round continues until enough requests are acknowledged.
        while round == 49
            && ledger.lock().unwrap().n_acknowledged <= N_ACKNOWLEDGED_MIN
            && !tasks.iter().any(|task| task.is_finished())
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.kill();
        for task in tasks {
            task.await.expect("nothing acknowledged was wrong");
        }
    }
    let server = Process::start(BINARY, &data, &[]);
    let mut ledger = std::mem::take(&mut *ledger.lock().unwrap());
    check(&server.client, &mut ledger).await;
    println!("{} acknowledged, {} unknown", ledger.n_acknowledged, ledger.n_unknown);
    assert!(ledger.n_acknowledged > N_ACKNOWLEDGED_MIN, "too little to prove anything");
    assert!(server.terminate().success());
    leasehold_store::sqlite::verify(&data).expect("sound");
}

#[tokio::test]
async fn a_crash_loop_extends_no_lease() {
    const TTL_MS: u64 = 600_000;
    let data = folder();
    let data = data.path().join("data");
    let server = Process::start(BINARY, &data, &[]);
    let sent_at = Instant::now();
    let held = server.client.acquire("db", "a", TTL_MS, json!({})).await;
    let answered_at = Instant::now();
    assert_eq!(held.status, 200);
    server.kill();
    for _ in 0..5 {
        let server = Process::start(BINARY, &data, &[]);
        let at_least = answered_at.elapsed().as_millis() as u64;
        let state = server.client.get("/v1/locks/db").await;
        let at_most = sent_at.elapsed().as_millis() as u64 + 1;
        let left = state.get("holders")[0]["expires_in_ms"].as_u64().expect("it is held");
        assert!(left <= TTL_MS - at_least, "{left} ms left after {at_least} ms: extended");
        assert!(left + at_most >= TTL_MS - 1, "{left} ms left after {at_most} ms: cut short");
        server.kill();
    }
}
