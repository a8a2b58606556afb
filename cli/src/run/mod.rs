//! `leasehold run`: runs a command while it holds a lock, and ends the command before the lease ends.
//!
//! Three processes work together:
//!
//! - This process, `run`, holds the lease, supervises the command and passes signals on.
//! - The *warden* is the command's parent and adopts its orphaned descendants. It knows the time until which the lease
//!   certainly holds. It kills the command and its descendants at that time, or when `run` dies, even if `run` is
//!   stopped or gone.
//! - The *command* starts through [`launch`] in its own process group. The kernel kills it if the warden dies.

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

/// How long before the end of the lease the kill is sent, so that it reaches all processes in time.
const KILL_BEFORE: Duration = Duration::from_millis(250);
/// Time limit for leaving the queue when `run` gives up.
const FAREWELL_MAX: Duration = Duration::from_millis(1500);
/// Number of attempts to reach a server that does not respond: about half a minute of pauses.
const ATTEMPTS_MAX: u32 = 20;

/// Runs the command and returns its status.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    told(OutputArgs { json: args.json }, tried(args))
}

fn tried(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (locks, task) = args.split()?;
    // Checked here, before any request is sent.
    args.grace_kill()?;
    let client = args.connection.client()?;
    // The worker thread sends the renewals while this thread is busy.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(SYSTEM, error))?;
    let ending = runtime.block_on(held(&client, args, &locks, &task));
    // Tasks that gave up waiting still have to leave the queue.
    runtime.shutdown_timeout(FAREWELL_MAX);
    ending.map(Ending::end)
}

/// Catches the signals that end a process, from this call on. The returned future completes with the way to end when
/// one arrives.
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
        // If the terminal sent the signal, the script that called us got it too.
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

/// Prints a message on standard error, in addition to what the command prints there.
fn say(what: &str) {
    output::say(&format!("leasehold: {}", plain(what)));
}
