//! Two clients of a driver that continuously take turns holding one lock, whatever happens to the servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::part::{CLIENTS_OF_TURNS, TTL_MS};
use crate::flaw::{Flaw, Outcome, broken, demand};
use crate::resource::Resource;
use crate::script::WAIT_MS;
use crate::subject::{Subject, token_of};

/// How long a client pauses between its turns.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Turns {
    is_over: watch::Sender<bool>,
    n_taken: Arc<AtomicUsize>,
    n_spent: Arc<AtomicUsize>,
    taking: Vec<JoinHandle<Outcome>>,
    /// The resource to which they write with the token of each turn.
    resource: Resource,
}

impl Turns {
    /// Starts to take turns.
    pub(super) async fn take(subject: &Arc<Subject>, lock: &str) -> Outcome<Self> {
        let resource = Resource::open().await.map_err(broken)?;
        let is_over = watch::Sender::new(false);
        let (n_taken, n_spent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let taking = CLIENTS_OF_TURNS.map(|client| {
            let turn =
                Turn { subject: subject.clone(), client, lock: lock.into(), url: resource.url() };
            let is_over = is_over.subscribe();
            let (n_taken, n_spent) = (n_taken.clone(), n_spent.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    if *is_over.borrow() {
                        break;
                    }
                    let count = if turn.take(n).await? { &n_taken } else { &n_spent };
                    count.fetch_add(1, Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(())
            })
        });
        Ok(Self { is_over, n_taken, n_spent, taking: taking.into(), resource })
    }

    /// Waits until this many more turns were taken.
    pub(super) async fn go_on(&self, n: usize, within: Duration) -> Outcome {
        let (until, give_up_at) = (self.n_taken.load(Relaxed) + n, Instant::now() + within);
        while self.n_taken.load(Relaxed) < until {
            let has_stopped = self.taking.iter().any(JoinHandle::is_finished);
            let is_late = Instant::now() > give_up_at;
            demand!(!is_late || has_stopped, "{n} turns were not taken within {within:?}");
            if has_stopped {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Ends the turns and checks them. Returns how many were taken, and how many ended before their client got a
    /// response.
    pub(super) async fn end(self) -> Outcome<(usize, usize)> {
        self.is_over.send_replace(true);
        for taking in self.taking {
            taking.await.map_err(broken)??;
        }
        let writes = self.resource.writes();
        let refused: Vec<_> = writes.iter().filter(|write| !write.is_accepted).collect();
        demand!(refused.is_empty(), "written with a token that is too old: {refused:?}");
        Ok((self.n_taken.load(Relaxed), self.n_spent.load(Relaxed)))
    }
}

struct Turn {
    subject: Arc<Subject>,
    client: &'static str,
    lock: String,
    url: String,
}

impl Turn {
    /// Takes one turn. Returns false if a leader was suspended for longer than the TTL after it granted the lock and
    /// before it responded.
    async fn take(&self, n: u64) -> Outcome<bool> {
        let Self { subject, client, lock, url } = self;
        let lease = format!("{client}:{lock}:{n}");
        let fields = json!({"lease": lease, "ttl_ms": TTL_MS, "wait_ms": WAIT_MS});
        let asked = subject.begin_acquire(client, lock, fields).answer().await?;
        if asked.as_ref().is_err_and(|no| no.error["code"] == "REQUEST_ID_SPENT") {
            return Ok(false);
        }
        let token = token_of(asked)?;
        let write =
            json!({"do": "write", "lease": lease, "url": url, "value": lease, "checked": true});
        match subject.driver.begin(write).answer().await? {
            Ok(answer) if answer["status"] == 200 => {}
            answer => {
                let why = format!("{client}'s write with token {token} was answered {answer:?}");
                return Err(Flaw::Wrong(why));
            }
        }
        subject.driver.ask(json!({"do": "release", "lease": lease})).await.map(|_| true)
    }
}
