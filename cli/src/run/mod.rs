//! `leasehold run`: a command that runs while a lock is held, and does not outlive it.
//!
//! Three processes are at work. This one holds the lease, waits for the command and passes signals on. The
//! *command* is started by way of [`launch`], in a process group of its own, and is killed by the system if we
//! are. The *warden* knows until when the lease is certain, and kills the group then, or when we die: it is for
//! the time when we are stopped or gone ourselves.

mod child;
mod launch;
mod signals;
mod terminal;
mod warden;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use child::{Child, Status};
use clap::Args;
pub(crate) use launch::{LaunchArgs, launch};
use leasehold::clock::Clock;
use leasehold::{Client, Error, LockGuard, Lost, Moment, Retry};
use rustix::process::Signal;
use signals::Signals;
use terminal::Terminal;
use warden::Warden;
pub(crate) use warden::{WardenArgs, warden};

use crate::connection::ConnectionArgs;
use crate::duration::DurationArg;
use crate::exit::{CONFLICT, Failure, LOST, SIGNAL, SYSTEM, USAGE};
use crate::seconds::Seconds;

/// How long giving back may take before we leave it to the ttl.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// Before the end of the lease, for the kill to reach everybody.
const KILL_BEFORE: Duration = Duration::from_millis(250);
/// How long it may take until a stop has its effect on all our threads.
const STOPPED_WITHIN: Duration = Duration::from_millis(200);
/// How long to ask a server that does not answer before giving up: about half a minute of pauses.
const ATTEMPTS_MAX: u32 = 20;

const EXAMPLES: &str = "\
Examples:
  leasehold run nightly -- ./backup.sh             # waits for its turn
  leasehold run -n nightly -- ./backup.sh          # or not at all
  leasehold run -w 60 -E 9 nightly -- ./backup.sh  # up to a minute; then ends with 9
  leasehold run --limit 3 encoder -- ./encode      # up to three at a time";

/// Run a command while holding a lock.
///
/// Its exit status is that of the command, or 128 and the number of the signal that ended it. 75 if the lock was
/// lost while it ran, 69 if it could not be started, 68 if the server cannot be reached, 64 for a mistake on the
/// command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The lock's name.
    lock: String,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// Do not wait if somebody else has the lock.
    #[arg(short, long, visible_alias = "nb", conflicts_with = "wait")]
    nonblock: bool,
    /// Wait for the lock this long; for ever if left out.
    #[arg(short, long, value_name = "SECONDS", visible_alias = "timeout")]
    wait: Option<Seconds>,
    /// The exit status if the lock could not be had.
    #[arg(short = 'E', long, value_name = "N", default_value_t = CONFLICT)]
    conflict_exit_code: u8,
    /// Share the lock with others that say so too.
    #[arg(short, long, conflicts_with = "limit")]
    shared: bool,
    /// Share it with up to N in all, who must all say the same N.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// How long the lease lasts if the server does not hear from us.
    #[arg(long, default_value = "30s")]
    ttl: DurationArg,
    /// The time between SIGTERM and SIGKILL if the lock is about to be lost: 5, or a quarter of the ttl if that
    /// is less.
    #[arg(long, value_name = "SECONDS")]
    grace_kill: Option<Seconds>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command and gives its status.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let client = args.connection.client()?;
    // The renewals have a thread of their own. The command is started by this one, which lasts to the end: the
    // system kills the command when the thread that started it ends.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(SYSTEM, error))?;
    let status = runtime.block_on(held(&client, &args));
    runtime.shutdown_background();
    status.map(ExitCode::from)
}

async fn held(client: &Client, args: &RunArgs) -> Result<u8, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::new(SYSTEM, error))?;
    let guard = tokio::select! {
        guard = acquire(client, args) => guard?,
        signal = signals.deadly() => return Ok(SIGNAL + signal.as_raw() as u8),
    };
    let terminal = Terminal::ours();
    match start(&guard, &args.command, terminal.as_ref()) {
        Ok((child, warden)) => {
            let kill_before = kill_before(args.ttl.0);
            Run { guard, kill_before, child, warden, terminal, signals }.see_through().await
        }
        Err(error) => {
            let _ = tokio::time::timeout(RELEASE_MAX, guard.release()).await;
            Err(Failure::new(SYSTEM, error))
        }
    }
}

fn start(
    guard: &LockGuard,
    command: &[OsString],
    terminal: Option<&Terminal>,
) -> std::io::Result<(Child, Warden)> {
    let child = Child::start(guard, command, terminal)?;
    // Without a warden nobody would end the command if we cannot.
    let warden = Warden::start(child.group()).inspect_err(|_| child.signal(Signal::KILL))?;
    Ok((child, warden))
}

async fn acquire(client: &Client, args: &RunArgs) -> Result<LockGuard, Failure> {
    let wait = match args.wait {
        _ if args.nonblock => Duration::ZERO,
        Some(Seconds(wait)) => wait,
        None => Duration::MAX,
    };
    let attempts_max = if wait.is_zero() { Retry::default().attempts_max } else { ATTEMPTS_MAX };
    let retry = Retry { attempts_max, ..Retry::default() };
    let ttl = args.ttl.0;
    let mut request = client.lock(&args.lock).ttl(ttl).wait(wait).retry(retry);
    request = request.margin(grace_kill(args)? + kill_before(ttl));
    if args.shared {
        request = request.shared();
    }
    if let Some(limit) = args.limit {
        request = request.limit(limit);
    }
    request.acquire().await.map_err(|error| match &error {
        Error::NotAcquired(_) => {
            Failure::new(args.conflict_exit_code, format!("{}: {error}", args.lock))
        }
        _ => error.into(),
    })
}

fn grace_kill(args: &RunArgs) -> Result<Duration, Failure> {
    let ttl = args.ttl.0;
    let usual = Duration::from_secs(5).min(ttl / 4);
    let grace = args.grace_kill.map_or(usual, |Seconds(grace)| grace);
    if grace > ttl / 3 {
        return Err(Failure::new(USAGE, "--grace-kill: is more than a third of --ttl"));
    }
    Ok(grace)
}

fn kill_before(ttl: Duration) -> Duration {
    KILL_BEFORE.min(ttl / 10)
}

/// A command that runs under a lock.
struct Run {
    guard: LockGuard,
    /// From here to the end of the lease the group must be dead.
    kill_before: Duration,
    child: Child,
    warden: Warden,
    terminal: Option<Terminal>,
    signals: Signals,
}

impl Run {
    async fn see_through(mut self) -> Result<u8, Failure> {
        let mut lost = std::pin::pin!(self.guard.lost());
        let (status, loss) = loop {
            let renewal = self.guard.renewal();
            self.warden.kill_at(self.kill_at());
            tokio::select! {
                // After a pause, this before anything else.
                biased;
                loss = &mut lost => break (self.end(loss).await, Some(loss)),
                status = self.child.change() => match status {
                    Status::Ended(status) => break (status, None),
                    Status::Stopped(signal) => self.stopped(signal).await,
                },
                signal = self.signals.next() => self.pass_on(signal),
                () = renewal => {}
            }
        };
        self.warden.dismiss();
        if let Some(terminal) = &self.terminal {
            terminal.take_from(self.child.group());
            if loss.is_some() {
                terminal.restore();
            }
        }
        self.child.reap();
        finish(self.guard, status, loss).await
    }

    fn kill_at(&self) -> Moment {
        self.guard.end() - self.kill_before
    }

    /// Ends the command while the lease is still ours, or at once if it may not be. Says nothing before it is done:
    /// writing can take any time.
    async fn end(&mut self, loss: Lost) -> u8 {
        let clock = leasehold::clock::BootClock;
        let kill_at = self.kill_at();
        if loss == Lost::OutOfTime && clock.now() < kill_at {
            self.child.signal(Signal::TERM);
            self.child.signal(Signal::CONT);
            tokio::select! {
                biased;
                () = clock.sleep_until(kill_at) => {}
                () = self.child.ended() => {}
            }
        }
        // Whatever is left of the group, also if the command itself has ended.
        self.child.signal(Signal::KILL);
        self.child.ended().await;
        self.child.status()
    }

    /// The command was stopped. If that was the terminal's doing, whoever started us expects the same of us.
    async fn stopped(&mut self, signal: Signal) {
        let Some(terminal) = &self.terminal else { return };
        let wants_terminal = [Signal::TTIN, Signal::TTOU].contains(&signal);
        if !wants_terminal && signal != Signal::TSTP {
            return;
        }
        if !(wants_terminal && terminal.is_ours()) {
            terminal.take_from(self.child.group());
            signals::stop_group();
            // Without a shell that could continue us we are not stopped, and go on.
            let _ = tokio::time::timeout(STOPPED_WITHIN, self.signals.continued()).await;
        }
        // After a pause the command goes on only if the lock is still ours. If not, the loop kills it.
        if self.guard.is_held() {
            self.pass_on(Signal::CONT);
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        if signal == Signal::CONT
            && let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.is_ours())
        {
            terminal.give(self.child.group());
        }
        self.child.signal(signal);
    }
}

/// Gives the lock back and tells how it went.
async fn finish(guard: LockGuard, status: u8, loss: Option<Lost>) -> Result<u8, Failure> {
    let name = guard.name().to_owned();
    let released = tokio::time::timeout(RELEASE_MAX, guard.release()).await;
    match (loss, released) {
        (Some(loss), _) => {
            Err(Failure::new(LOST, format!("{name}: {loss}; the command was ended")))
        }
        (None, Ok(Err(Error::NotReleased(no)))) => {
            let why = format!("{name}: {}: it was lost before the command ended", no.error);
            Err(Failure::new(LOST, why))
        }
        (None, Ok(Ok(()))) => Ok(status),
        (None, not_released) => {
            let why = match not_released {
                Ok(Err(error)) => error.to_string(),
                _ => "no answer".into(),
            };
            warn(&format!("{name} was not given back and will run out: {why}"));
            Ok(status)
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the command worked, but somebody may wonder why the lock is held"
)]
fn warn(what: &str) {
    eprintln!("leasehold: {what}");
}
