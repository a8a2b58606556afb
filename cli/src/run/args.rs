//! Parses the command line of `run` and derives the locks, the task and the time limits from it.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::contain::Contain;
use crate::connection::ConnectionArgs;
use crate::duration::{DurationArg, interval, lasting};
use crate::exit::{CONFLICT, Failure, USAGE};
use crate::json;

/// The shell for `-c` if the variable SHELL is not set.
const SHELL_DEFAULT: &str = "/bin/sh";
/// Default for `--grace-kill`, the time between SIGTERM and SIGKILL.
const GRACE_KILL_DEFAULT: Duration = Duration::from_secs(5);

/// The hidden flag that marks every positional word as part of the command: the locks come from `-l`.
pub(super) const ALL_WORDS: &str = "all-words";

const USAGE_LINES: &str = "\
leasehold run [OPTIONS] LOCK CMD [ARGS]...
       leasehold run [OPTIONS] LOCK -c STRING
       leasehold run [OPTIONS] -l LOCK [-l LOCK]... CMD [ARGS]...
       leasehold run [OPTIONS] LOCK --hold";

const EXAMPLES: &str = "\
Examples:
  leasehold run nightly ./backup.sh                  # waits for the lock
  leasehold run -n nightly ./backup.sh               # does not wait
  leasehold run -w 60 -E 9 nightly ./backup.sh       # waits up to a minute, then exits with 9
  leasehold run nightly -c 'dump | gzip > x.gz'      # a shell command line
  leasehold run --limit 3 encoder ./encode film.mkv  # up to three at the same time
  leasehold run -l orders -l stock ./inventory       # both locks or none
  leasehold run --skip-if-busy --at-least 55s cleanup ./cleanup.sh  # once a minute, although cron runs it on every host
  leasehold run --hold maintenance                   # until Ctrl-C

Exit status: that of the command, or 128 plus the number of the signal that ended it; 1 if the lock is not acquired
(-E), 75 if it was lost while the command ran, 124 if the command ran longer than --at-most. For the rest, see
`leasehold man run`.";

/// Run a command while holding a lock.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, override_usage = USAGE_LINES)]
pub(crate) struct RunArgs {
    /// Name of the lock.
    lock: Option<OsString>,
    /// Command and its arguments; no `--` is needed before them.
    #[arg(value_name = "CMD")]
    words: Vec<OsString>,
    /// Lock to acquire; repeat the flag for several locks, all or none. The first word is then the command.
    #[arg(short = 'l', long = "lock", value_name = "LOCK")]
    locks: Vec<String>,
    #[arg(long = ALL_WORDS, hide = true)]
    all_words: bool,
    /// Command line for the shell (SHELL, or /bin/sh).
    #[arg(short = 'c', long = "command", value_name = "STRING")]
    shell: Option<OsString>,
    /// Run no command: hold the lock until Ctrl-C or the end of standard input.
    #[arg(long, conflicts_with_all = ["shell", "words", "at_most"])]
    hold: bool,
    /// Do not wait if another owner holds the lock.
    #[arg(short, long, visible_alias = "nb", conflicts_with = "wait")]
    pub(super) nonblock: bool,
    /// If the lock is held, exit with 0 silently; for cron jobs that start on every host.
    #[arg(long, conflicts_with_all = ["wait", "conflict_exit_code"])]
    pub(super) skip_if_busy: bool,
    /// How long to wait for the lock; a plain number is seconds [default: indefinitely].
    #[arg(short, long, value_name = "TIME", visible_alias = "timeout")]
    pub(super) wait: Option<DurationArg>,
    /// Exit status if the lock is not acquired.
    #[arg(short = 'E', long, value_name = "N", default_value_t = CONFLICT)]
    pub(super) conflict_exit_code: u8,
    /// Exclude all other holders [default].
    #[arg(short = 'x', visible_short_alias = 'e', long, conflicts_with_all = ["shared", "limit"])]
    exclusive: bool,
    /// Share the lock with other clients that use --shared.
    #[arg(short, long, conflicts_with = "limit")]
    pub(super) shared: bool,
    /// Allow up to N holders at once; all must pass the same N.
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<u32>,
    /// Lease duration without renewal; at least 100ms.
    #[arg(long, default_value = "30s", value_parser = interval)]
    pub(super) ttl: DurationArg,
    /// Hold the lock for at least this long, even if the command finishes sooner, so that another host does not run it
    /// again.
    #[arg(long, value_name = "TIME")]
    pub(super) at_least: Option<DurationArg>,
    /// Time limit of the command; `run` then ends it and exits with 124.
    #[arg(long, value_name = "TIME", value_parser = lasting)]
    pub(super) at_most: Option<DurationArg>,
    /// Time between SIGTERM and SIGKILL [default: 5s, or a quarter of the TTL if less].
    #[arg(long, value_name = "TIME")]
    grace_kill: Option<DurationArg>,
    /// Which processes to stop along with the command.
    #[arg(long, value_enum, default_value_t = Contain::Auto)]
    pub(super) contain: Contain,
    /// Metadata shown to clients that inspect the lock.
    #[arg(long, value_name = "JSON", value_parser = json::parse)]
    pub(super) metadata: Option<Value>,
    /// Pass the API key and the client certificate to the command: LEASEHOLD_API_KEY, LEASEHOLD_API_KEY_FILE,
    /// LEASEHOLD_CLIENT_CERT_FILE, LEASEHOLD_CLIENT_KEY_FILE.
    #[arg(long)]
    pub(super) pass_api_key: bool,
    /// Print progress to standard error.
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// With --hold: print the lease as JSON.
    #[arg(long, requires = "hold")]
    pub(super) json: bool,
    /// Accepted for scripts written for `flock`: there is no file to close.
    #[arg(short = 'o', long = "close", hide = true)]
    close: bool,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// What `run` does while it holds the lock.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// A program and its arguments.
    Run(Vec<OsString>),
    /// Run no command: hold the lock until a signal or the end of standard input.
    Hold,
}

impl RunArgs {
    /// Returns the lock names, and the task to run while the locks are held.
    pub(super) fn split(&self) -> Result<(Vec<String>, Task), Failure> {
        let mut words: Vec<_> = self.lock.iter().chain(&self.words).cloned().collect();
        let mut locks = self.locks.clone();
        if !self.all_words && !words.is_empty() {
            let not_text = |_| Failure::new(USAGE, "a lock name must be UTF-8");
            locks.insert(0, words.remove(0).into_string().map_err(not_text)?);
        }
        let is_twice = |(n, lock): &(usize, &String)| locks[..*n].contains(lock);
        if let Some((_, lock)) = locks.iter().enumerate().find(is_twice) {
            return Err(Failure::new(USAGE, format!("lock {lock:?} is given twice")));
        }
        if locks.is_empty() {
            return Err(Failure::new(USAGE, "no lock given: leasehold run LOCK CMD [ARGS]..."));
        }
        Ok((locks, self.task(words)?))
    }

    fn task(&self, words: Vec<OsString>) -> Result<Task, Failure> {
        match (&self.shell, self.hold) {
            (None, true) if words.is_empty() => Ok(Task::Hold),
            (None, true) => Err(Failure::new(USAGE, "--hold cannot be combined with a command")),
            (Some(_), _) if !words.is_empty() => {
                Err(Failure::new(USAGE, "give either -c STRING or a command, not both"))
            }
            (Some(line), _) => {
                let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
                let shell = shell.unwrap_or_else(|| SHELL_DEFAULT.into());
                Ok(Task::Run(vec![shell, "-c".into(), line.clone()]))
            }
            (None, false) if words.is_empty() => Err(Failure::new(
                USAGE,
                "no command given: leasehold run LOCK CMD [ARGS]..., or --hold to run none",
            )),
            (None, false) => Ok(Task::Run(words)),
        }
    }

    /// Returns whether an exclusive lock is requested: no `--shared` and no `--limit`.
    pub(super) fn is_exclusive(&self) -> bool {
        !self.shared && self.limit.is_none()
    }

    /// Returns how long to wait for the lock.
    pub(super) fn patience(&self) -> Duration {
        match self.wait {
            _ if self.nonblock || self.skip_if_busy => Duration::ZERO,
            Some(DurationArg(wait)) => wait,
            None => Duration::MAX,
        }
    }

    /// Returns the time between SIGTERM and SIGKILL that applies if the TTL is long enough.
    pub(super) fn reserve(&self) -> Duration {
        self.grace_kill.map_or(GRACE_KILL_DEFAULT, |grace| grace.0)
    }

    /// Returns the time between SIGTERM and SIGKILL; fails if it exceeds a third of the TTL.
    pub(super) fn grace_kill(&self) -> Result<Duration, Failure> {
        let ttl = self.ttl.0;
        let usual = GRACE_KILL_DEFAULT.min(ttl / 4);
        let grace = self.grace_kill.map_or(usual, |DurationArg(grace)| grace);
        if grace > ttl / 3 {
            let most = DurationArg(ttl / 3);
            let why = format!(
                "--grace-kill is {}, more than a third of --ttl ({most})",
                DurationArg(grace)
            );
            return Err(Failure::new(USAGE, why));
        }
        Ok(grace)
    }

    /// Returns the failure to report if another client holds the lock.
    pub(super) fn refused(&self, failure: Failure) -> Failure {
        match (self.skip_if_busy, self.verbose) {
            (true, false) => Failure::silent(0),
            (true, true) => Failure::new(0, format!("{}; skipped", failure.why)),
            (false, _) => Failure { status: self.conflict_exit_code, ..failure },
        }
    }
}
