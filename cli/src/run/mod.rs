//! `leasehold run`: a command that runs while a lock is held, and does not outlive it.
//!
//! Three processes are at work. This one holds the lease, hears of the command and passes signals on. The *warden* is
//! the command's parent and adopts whatever that leaves behind; it knows until when the lease is certain, and kills
//! all of them then, or when we die: it is for the time when we are stopped or gone ourselves. The *command* is started
//! by way of [`launch`], in a process group of its own, and is killed by the system if the warden is.

mod args;
mod child;
mod contain;
mod ending;
mod held;
mod hold;
mod launch;
mod lineage;
mod message;
mod release;
mod signals;
mod supervision;
mod terminal;
mod waiting;
mod warden;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) use args::RunArgs;
use args::Task;
use child::Child;
use contain::Containment;
use ending::Whom;
pub(crate) use ending::{DieArgs, Ending, die};
use held::Held;
pub(crate) use launch::{LaunchArgs, launch};
use leasehold::api::Reason;
use leasehold::{Client, Error, LockRequest, LocksRequest, Retry};
use release::Release;
use signals::Signals;
use supervision::Supervision;
use terminal::Terminal;
pub(crate) use warden::{WardenArgs, warden};
pub(crate) use words::separated;

use crate::ask::told;
use crate::exit::{CONFLICT, Failure, SYSTEM};
use crate::output::{self, OutputArgs, plain};

/// Before the end of the lease, for the kill to reach everybody.
const KILL_BEFORE: Duration = Duration::from_millis(250);
/// How long the last words to the server may take.
const FAREWELL_MAX: Duration = Duration::from_millis(1500);
/// How long to ask a server that does not answer before giving up: about half a minute of pauses.
const ATTEMPTS_MAX: u32 = 20;

/// Runs the command and gives its status.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    told(OutputArgs { json: args.json }, tried(args))
}

fn tried(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (locks, task) = args.split()?;
    // Before anything is asked for.
    args.grace_kill()?;
    let client = args.connection.client()?;
    // The renewals have a thread of their own.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(SYSTEM, error))?;
    let ending = runtime.block_on(held(&client, args, &locks, &task));
    // Whoever gave up waiting still has to leave the queue.
    runtime.shutdown_timeout(FAREWELL_MAX);
    ending.map(Ending::end)
}

/// Takes the signals that end a process, from here on. Completes when one comes, and says how to end then.
pub(crate) fn interruption() -> std::io::Result<impl Future<Output = Ending>> {
    let mut signals = Signals::listen()?;
    Ok(async move { Ending::Signal(signals.deadly().await, Whom::Ourselves) })
}

async fn held(
    client: &Client,
    args: &RunArgs,
    locks: &[String],
    task: &Task,
) -> Result<Ending, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::new(SYSTEM, error))?;
    let asked_at = Instant::now();
    let guard = tokio::select! {
        guard = acquire(client, args, locks) => guard?,
        never = waiting::show(client, locks, args.patience()) => match never {},
        // If the terminal sent it, whoever called us got it too.
        signal = signals.deadly() => return Ok(Ending::Signal(signal, Whom::Ourselves)),
    };
    output::warn_short(client, args.ttl.0, args.reserve());
    if args.verbose {
        let (name, token) = (plain(guard.name()), guard.tokens());
        let took = asked_at.elapsed().as_secs_f64();
        say(&format!("{name}: acquired after {took:.3} s, token {token}"));
    }
    let release = Release::new(args);
    match task {
        Task::Hold => hold::hold(guard, signals, release, args.json).await,
        Task::Run(command) => execute(guard, signals, release, args, command).await,
    }
}

async fn execute(
    guard: Held,
    signals: Signals,
    release: Release,
    args: &RunArgs,
    command: &[OsString],
) -> Result<Ending, Failure> {
    let terminal = Terminal::ours();
    let grace = args.grace_kill()?;
    match start(&guard, args, command, terminal.as_ref()).await {
        Ok(child) => {
            let kill_before = kill_before(args.ttl.0);
            let at_most = args.at_most.map(|time| time.0);
            let supervision = Supervision::new(guard, child, terminal, signals, kill_before, grace);
            supervision.see_through(at_most, release).await
        }
        Err(why) => {
            release.at_once(guard).await;
            Err(Failure::new(SYSTEM, why))
        }
    }
}

async fn start(
    guard: &Held,
    args: &RunArgs,
    command: &[OsString],
    terminal: Option<&Terminal>,
) -> Result<Child, String> {
    let containment = Containment::prepare(args.contain)?;
    if args.verbose {
        say(&format!(
            "running {}, contained by its {containment}",
            plain(&command[0].to_string_lossy())
        ));
    }
    let mut warden = Child::warden(command, &containment, terminal);
    lineage::tell(&mut warden, guard, &args.connection, args.pass_api_key);
    Child::start(warden, containment).await.map_err(|error| error.to_string())
}

async fn acquire(client: &Client, args: &RunArgs, locks: &[String]) -> Result<Held, Failure> {
    args.connection.server.greet(client).await?;
    if let Some(why) = lineage::nested(client, locks, args).await? {
        return Err(args.refused(Failure::new(CONFLICT, why)));
    }
    release::check(client, args, locks).await?;
    let asked = match locks {
        [lock] => one(client, args, lock)?.acquire().await.map(Held::one),
        locks => several(client, args, locks)?.acquire().await.map(Held::several),
    };
    asked.map_err(|error| match &error {
        Error::NotAcquired(no) if no.reason != Reason::BusyRetry => {
            let why = format!("{}: {}", plain(&no.lock_name), plain(&error.to_string()));
            args.refused(Failure { why, ..error.into() })
        }
        _ => error.into(),
    })
}

fn one(client: &Client, args: &RunArgs, lock: &str) -> Result<LockRequest, Failure> {
    let mut request = client.lock(lock).ttl(args.ttl.0).wait(args.patience()).retry(retry(args));
    request = request.margin(args.grace_kill()? + kill_before(args.ttl.0)).watched();
    if args.shared {
        request = request.shared();
    }
    if let Some(limit) = args.limit {
        request = request.limit(limit);
    }
    if let Some(metadata) = &args.metadata {
        request = request.metadata(metadata.clone());
    }
    Ok(request)
}

fn several(client: &Client, args: &RunArgs, locks: &[String]) -> Result<LocksRequest, Failure> {
    let mut request = client.locks().ttl(args.ttl.0).wait(args.patience()).retry(retry(args));
    request = request.margin(args.grace_kill()? + kill_before(args.ttl.0)).watched();
    for lock in locks {
        request = match (args.shared, args.limit) {
            (true, _) => request.shared(lock),
            (false, Some(limit)) => request.counted(lock, limit),
            (false, None) => request.lock(lock),
        };
    }
    if let Some(metadata) = &args.metadata {
        request = request.metadata(metadata.clone());
    }
    Ok(request)
}

fn retry(args: &RunArgs) -> Retry {
    let usual = Retry::default();
    let attempts_max = if args.patience().is_zero() { usual.attempts_max } else { ATTEMPTS_MAX };
    Retry { attempts_max, ..usual }
}

fn kill_before(ttl: Duration) -> Duration {
    KILL_BEFORE.min(ttl / 10)
}

/// Tells whoever started us, beside what the command says.
fn say(what: &str) {
    output::say(&format!("leasehold: {}", plain(what)));
}
