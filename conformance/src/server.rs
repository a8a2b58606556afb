//! The real server, in a separate process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Method, Process, Response, Signal, TempDir, folder};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::PATIENCE;
use crate::flaw::{Outcome, broken, demand};
use crate::history::History;
use crate::link::Upstream;

/// The server keeps the places of waiters with broken connections for longer than any script takes, so that no client
/// loses its place on a busy machine.
pub(crate) const KEEPS_PLACES: [&str; 2] = ["--park-max=10m", "--resume-park-max=10m"];

/// The prefix of the names of locks that only the harness uses.
const MARK: &str = "~mark-";

/// Maximum pages of 1000 events in the history of a script.
const PAGES_MAX: usize = 20;

/// A server with a separate data directory. Dropping this value kills it.
pub struct Server {
    binary: PathBuf,
    /// Additional flags for `serve`.
    pub(crate) flags: Vec<String>,
    data: TempDir,
    process: Mutex<Option<Process>>,
    address: watch::Sender<Option<std::net::SocketAddr>>,
    n_marks: AtomicU64,
}

/// A lease of an owner that the harness plays.
pub struct Held {
    acquired: Value,
}

impl Held {
    /// Returns its fencing token.
    pub fn token(&self) -> u64 {
        self.acquired["fencing_token"].as_u64().unwrap_or(0)
    }
}

impl Server {
    /// Starts `binary serve` on a free port.
    pub async fn start(binary: PathBuf) -> Outcome<Self> {
        let mut server = Self::new(binary);
        server.flags = KEEPS_PLACES.map(String::from).into();
        server.start_again().await?;
        Ok(server)
    }

    /// Creates a server that is started later, so that its flags can be set before.
    pub(crate) fn new(binary: PathBuf) -> Self {
        Self {
            binary,
            flags: Vec::new(),
            data: folder(),
            process: Mutex::new(None),
            address: watch::Sender::new(None),
            n_marks: AtomicU64::new(0),
        }
    }

    /// Returns the server's address, which is updated with each start.
    pub fn upstream(&self) -> Upstream {
        self.address.subscribe()
    }

    /// Kills the server with SIGKILL, and waits for its end.
    pub async fn kill(&self) {
        self.address.send_replace(None);
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(process) = process {
            let _ = tokio::task::spawn_blocking(move || process.kill()).await;
        }
    }

    /// Starts the server on its existing data.
    pub async fn start_again(&self) -> Outcome {
        let (binary, data) = (self.binary.clone(), self.data.path().join("data"));
        let flags = self.flags.clone();
        let start = move || {
            let binary = binary.to_str().ok_or("its path is no text")?;
            let flags: Vec<_> = flags.iter().map(String::as_str).collect();
            Process::try_start(binary, &data, &flags)
        };
        let started = tokio::task::spawn_blocking(start).await.map_err(broken)?;
        let process = started.map_err(|why| broken(format!("the server did not start: {why}")))?;
        self.address.send_replace(Some(process.address));
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
        Ok(())
    }

    /// Suspends the server with SIGSTOP.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the server with SIGCONT.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &*self.process.lock().unwrap_or_else(PoisonError::into_inner) {
            process.signal(signal);
        }
    }

    /// Sends a request directly, without a link.
    pub async fn ask(&self, method: Method, path: &str, body: Value) -> Outcome<Response> {
        let address = *self.address.borrow();
        let client = Client::new(address.ok_or_else(|| broken("the server is down"))?);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = Some("application/json").filter(|_| !body.is_empty());
        let answer = tokio::time::timeout(PATIENCE, client.send(method, path, kind, body));
        answer.await.map_err(broken)?.map_err(broken)
    }

    /// Acquires a lock for an owner that the harness plays.
    pub async fn acquire(&self, lock: &str, owner: &str, more: Value) -> Outcome<Held> {
        let mut body = json!({"owner_id": owner, "ttl_ms": 600_000});
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        let path = format!("/v1/locks/{lock}/acquire");
        let answer = self.ask(Method::POST, &path, body).await?;
        demand!(answer.status == 200, "{owner} did not get {lock}: {}", answer.text);
        Ok(Held { acquired: answer.body })
    }

    /// Releases a lease.
    pub async fn release(&self, held: &Held) -> Outcome {
        let Held { acquired } = held;
        let lock = acquired["lock_name"].as_str().unwrap_or_default();
        let mut body = json!({});
        for name in ["owner_id", "lease_id", "fencing_token"] {
            body[name] = acquired[name].clone();
        }
        let answer = self.ask(Method::POST, &format!("/v1/locks/{lock}/release"), body).await?;
        demand!(answer.status == 200, "{lock} was not released: {}", answer.text);
        Ok(())
    }

    /// Reads a lock.
    pub async fn look(&self, lock: &str) -> Outcome<Value> {
        Ok(self.ask(Method::GET, &format!("/v1/locks/{lock}"), Value::Null).await?.body)
    }

    /// Returns the history of the default namespace.
    pub async fn history(&self) -> Outcome<History> {
        self.history_of("/v1").await
    }

    /// Returns the history of the namespace with this path.
    ///
    /// The server writes history after it responds. So this first causes an event that can be recognized. When that
    /// event is in the history, all earlier events are too.
    pub async fn history_of(&self, namespace: &str) -> Outcome<History> {
        let mark = format!("{MARK}{}", self.n_marks.fetch_add(1, Relaxed));
        let acquire = json!({"owner_id": "mark", "ttl_ms": 60_000});
        let path = format!("{namespace}/locks/{mark}/acquire");
        let answer = self.ask(Method::POST, &path, acquire).await?;
        demand!(answer.status == 200, "a free lock was refused: {}", answer.text);
        let give_up_at = Instant::now() + PATIENCE;
        loop {
            let history = self.pages_of_history(namespace).await?;
            if !history.of_lock("granted", &mark).is_empty() {
                return Ok(history.without(MARK));
            }
            demand!(Instant::now() < give_up_at, "history is {PATIENCE:?} behind");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn pages_of_history(&self, namespace: &str) -> Outcome<History> {
        let mut history = History::default();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let from: String = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let path = format!("{namespace}/history?limit=1000{from}");
            let answer = self.ask(Method::GET, &path, Value::Null).await?;
            demand!(answer.status == 200, "no history: {}", answer.text);
            history = History::read(&answer.body).then(history);
            cursor = answer.body["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return Ok(history);
            }
        }
        Err(broken(format!("there are more than {PAGES_MAX} pages of history")))
    }

    /// Returns the history as soon as `is_so` holds for it, or the current history after `within`.
    pub async fn history_when(
        &self,
        within: Duration,
        is_so: impl Fn(&History) -> bool,
    ) -> Outcome<History> {
        let give_up_at = Instant::now() + within;
        loop {
            let history = self.history().await?;
            if is_so(&history) || Instant::now() > give_up_at {
                return Ok(history);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until exactly these owners wait for a lock in this order, all of them connected.
    pub async fn wait_for_queue(&self, lock: &str, owners: &[&str], within: Duration) -> Outcome {
        let give_up_at = Instant::now() + within;
        loop {
            let state = self.look(lock).await?;
            let queue = state["queue"].as_array().cloned().unwrap_or_default();
            let is_there = |(entry, owner): (&Value, &&str)| {
                entry["owner_id"] == **owner && entry["parked"] != true
            };
            if queue.len() == owners.len() && queue.iter().zip(owners).all(is_there) {
                return Ok(());
            }
            demand!(
                Instant::now() < give_up_at,
                "after {within:?} the queue of {lock} should be {owners:?}, connected: {state}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
