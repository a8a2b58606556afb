//! A driver: a program that carries out commands with its SDK.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot, watch};

use crate::PATIENCE;
use crate::flaw::{Flaw, Outcome, broken};

/// The version of the protocol.
pub const PROTOCOL: u64 = 1;

/// How much of a driver's output is kept.
const LOG_BYTES_MAX: usize = 1 << 20;

/// An event that a driver reported on its own initiative.
#[derive(Clone, Debug)]
pub struct Told {
    /// When its line arrived.
    pub at: Instant,
    /// The same time by the wall clock, which the server uses too.
    pub at_ms: u64,
    /// The event.
    pub event: Value,
}

/// An error with which a driver responded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The name of the error in the protocol.
    pub name: String,
    /// The whole error.
    pub error: Value,
}

/// A running driver. Dropping this value kills its whole process group.
pub struct Driver {
    child: Child,
    group: Option<Pid>,
    lines: mpsc::UnboundedSender<String>,
    n_asked: AtomicU64,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    asked: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    told: Mutex<Vec<Told>>,
    n_told: watch::Sender<usize>,
    /// The output on stdout and stderr.
    said: Mutex<String>,
    /// Lines on stdout that do not belong to the protocol.
    noise: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A command that was sent.
pub struct Asked {
    /// The id of the command.
    pub id: u64,
    what: String,
    answer: oneshot::Receiver<Value>,
}

impl Asked {
    /// Waits for the response.
    pub async fn answer(self) -> Outcome<Result<Value, Refusal>> {
        self.answer_within(PATIENCE).await
    }

    /// Waits for the response, but fails after `within`.
    pub async fn answer_within(self, within: Duration) -> Outcome<Result<Value, Refusal>> {
        let what = self.what;
        let wrong = |why: &str| Flaw::Wrong(format!("{why}: {what}"));
        let answer = tokio::time::timeout(within, self.answer).await;
        let answer = answer.map_err(|_| wrong(&format!("not answered within {within:?}")))?;
        let mut answer = answer.map_err(|_| wrong("the driver ended without an answer"))?;
        if answer["ok"].is_object() {
            return Ok(Ok(answer["ok"].take()));
        }
        let error = answer["error"].take();
        match error["name"].as_str() {
            Some("unsupported") => Err(Flaw::Unsupported(what)),
            Some("internal") => Err(wrong(&format!("the driver failed ({})", error["message"]))),
            Some(name) => Ok(Err(Refusal { name: name.into(), error })),
            None => Err(wrong("neither ok nor an error with a name")),
        }
    }

    /// Returns whether the command has a response already, for commands that must still be pending.
    pub fn is_answered(&mut self) -> bool {
        !matches!(self.answer.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }
}

impl Driver {
    /// Starts a driver and sends `hello`. Returns its name and version too.
    pub async fn start(
        command: &[String],
        environment: &[(String, String)],
    ) -> Outcome<(Self, String)> {
        let [program, arguments @ ..] = command else { return Err(broken("no driver is given")) };
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.process_group(0).kill_on_drop(true).spawn();
        let mut child = started.map_err(|why| broken(format!("{program}: {why}")))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(broken("a driver without pipes"));
        };
        let shared = Arc::<Shared>::default();
        let (lines, to_write) = mpsc::unbounded_channel();
        tokio::spawn(write(stdin, to_write));
        tokio::spawn(listen(stdout, shared.clone()));
        tokio::spawn(keep(stderr, shared.clone()));
        let driver = Self { child, group, lines, n_asked: AtomicU64::new(0), shared };
        let hello = driver.ask(json!({"do": "hello", "protocol": PROTOCOL})).await?;
        let is_ours = hello["protocol"] == PROTOCOL;
        let text = |name| hello[name].as_str().unwrap_or("?");
        let name = format!("{} {}", text("sdk"), text("version"));
        if is_ours { Ok((driver, name)) } else { Err(broken(format!("not protocol 1: {hello}"))) }
    }

    /// Sends a command.
    pub fn begin(&self, mut command: Value) -> Asked {
        let id = self.n_asked.fetch_add(1, Relaxed) + 1;
        let what = command.to_string();
        command["id"] = id.into();
        let (sender, answer) = oneshot::channel();
        lock(&self.shared.asked).insert(id, sender);
        let _ = self.lines.send(format!("{command}\n"));
        Asked { id, what, answer }
    }

    /// Sends a command whose response must be `ok`.
    pub async fn ask(&self, command: Value) -> Outcome<Value> {
        let asked = self.begin(command);
        let what = asked.what.clone();
        let wrong = |no: Refusal| Flaw::Wrong(format!("{what} was answered {}", no.error));
        asked.answer().await?.map_err(wrong)
    }

    /// Sends a command whose response must be an error.
    pub async fn refused(&self, command: Value) -> Outcome<Refusal> {
        let asked = self.begin(command);
        let what = asked.what.clone();
        match asked.answer().await? {
            Ok(ok) => Err(Flaw::Wrong(format!("{what} was answered ok: {ok}"))),
            Err(refusal) => Ok(refusal),
        }
    }

    /// Returns all reported events of this kind about this name.
    pub fn told(&self, event: &str, about: (&str, &str)) -> Vec<Told> {
        let fits = |told: &&Told| told.event["event"] == event && told.event[about.0] == about.1;
        lock(&self.shared.told).iter().filter(fits).cloned().collect()
    }

    /// Waits until the driver reports the loss of a lease or a session (`about`).
    pub async fn lost(&self, about: (&str, &str), within: Duration) -> Outcome<Told> {
        let give_up_at = tokio::time::Instant::now() + within;
        let mut n_told = self.shared.n_told.subscribe();
        loop {
            n_told.mark_unchanged();
            if let Some(told) = self.losses(about).into_iter().next() {
                return Ok(told);
            }
            let change = tokio::time::timeout_at(give_up_at, n_told.changed()).await;
            let (what, name) = about;
            change
                .map_err(|_| {
                    Flaw::Wrong(format!("no `lost` of {what} {name:?} within {within:?}"))
                })?
                .map_err(broken)?;
        }
    }

    /// Returns the reported losses. A release does not count as a loss.
    pub fn losses(&self, about: (&str, &str)) -> Vec<Told> {
        let mut told = self.told("lost", about);
        told.retain(|told| told.event["reason"] != "released");
        told
    }

    /// Sends SIGSTOP to the driver's process group.
    pub fn stop(&self) -> Outcome {
        self.signal(Signal::STOP)
    }

    /// Sends SIGCONT to the driver's process group.
    pub fn go_on(&self) -> Outcome {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Outcome {
        let group = self.group.ok_or_else(|| broken("the driver has no process id"))?;
        kill_process_group(group, signal).map_err(broken)
    }

    /// Returns the output on stdout and stderr.
    pub fn said(&self) -> String {
        lock(&self.shared.said).clone()
    }

    /// Returns the lines on stdout that violate the protocol.
    pub fn noise(&self) -> Vec<String> {
        lock(&self.shared.noise).clone()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The driver might be stopped, and might have child processes. The process was not waited for, so its id is
        // still valid.
        if self.child.id().is_some() {
            let _ = self.signal(Signal::KILL);
        }
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn listen(stdout: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let at = Instant::now();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        shared.keep(&line);
        let message: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
        if message["event"].is_string() {
            let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
            lock(&shared.told).push(Told { at, at_ms, event: message });
            shared.n_told.send_modify(|n| *n += 1);
            continue;
        }
        let asker = message["id"].as_u64().and_then(|id| lock(&shared.asked).remove(&id));
        match asker {
            Some(asker) => drop(asker.send(message)),
            None => lock(&shared.noise).push(line),
        }
    }
    // No pending command can get a response any more.
    lock(&shared.asked).clear();
}

async fn keep(stderr: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        shared.keep(&line);
    }
}

impl Shared {
    fn keep(&self, line: &str) {
        let mut said = lock(&self.said);
        if said.len() < LOG_BYTES_MAX {
            said.push_str(line);
            said.push('\n');
        }
    }
}
