//! `leasehold ls`: lists locks, one line for each.

use std::cmp::{Ordering, Reverse};

use clap::{Args, ValueEnum};
use leasehold::api::LockState;
use leasehold::{Client, ListQuery, Standing};

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::duration::{DurationArg, interval};
use crate::exit::Failure;
use crate::output::{OutputArgs, plain, print, print_json, say};
use crate::screen::Screen;
use crate::status::{ago, left, standing};
use crate::table::Table;

/// Number of locks per request: the maximum that the server returns.
const PAGE: usize = 1000;
/// Number of waiters that are shown by name.
const NAMED_MAX: usize = 3;

/// The default interval of `--watch`.
const WATCH_DEFAULT: &str = "2s";
/// The terminal codes that move to the top of the screen and clear it.
const CLEAR: &str = "\x1b[H\x1b[J";

const EXAMPLES: &str = "\
Examples:
  leasehold ls                       # locks that are held, reserved or waited for
  leasehold ls --all deploy/         # also the free locks that the server remembers
  leasehold ls --sort left --watch   # every 2 s; the lease that expires first at the top
  leasehold ls --full                # full lines, with all waiters
  leasehold ls --owner worker-1 --json | jq -r .lock_name

With --json, each line is one object, as from `leasehold status --json`.

Exit status: 0, even if the list is empty; 68 the server cannot be reached.";

/// List locks with their holders, times and waiters.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LsArgs {
    /// Show only locks whose name starts with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Also show locks without holders and waiters.
    #[arg(short, long, conflicts_with = "state")]
    all: bool,
    /// Show only locks in this state.
    #[arg(long)]
    state: Option<State>,
    /// Show only locks that this owner holds or waits for.
    #[arg(long)]
    owner: Option<String>,
    /// Sort order.
    #[arg(long, value_enum, default_value_t = Sort::Name)]
    sort: Sort,
    /// Show all waiters, and do not cut lines to the width of the terminal.
    #[arg(long)]
    full: bool,
    /// Repeat the list every 2 s, or at this interval (at least 100ms).
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = WATCH_DEFAULT, value_parser = interval)]
    watch: Option<DurationArg>,
    /// Print only the names, of up to 1000 locks: for completions.
    #[arg(long, hide = true)]
    names: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Held,
    Waiting,
    Free,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Sort {
    Name,
    Owner,
    /// The lock held for the longest time first.
    Since,
    /// The lease that expires first at the top.
    Left,
    /// The longest queue first.
    Waiting,
}

pub(crate) fn ls(args: &LsArgs) -> Result<(), Failure> {
    ask(args.output, async {
        let client = args.server.reach().await?;
        if args.names {
            return names(args, &client).await;
        }
        let Some(DurationArg(pause)) = args.watch else { return show(args, &client, false).await };
        loop {
            show(args, &client, true).await?;
            tokio::time::sleep(pause).await;
        }
    })
}

async fn names(args: &LsArgs, client: &Client) -> Result<(), Failure> {
    let page = client.list(&args.query(None)).await?;
    let names: Vec<_> = page.locks.iter().map(|lock| plain(&lock.lock_name)).collect();
    if names.is_empty() { Ok(()) } else { print(&names.join("\n")) }
}

async fn show(args: &LsArgs, client: &Client, again: bool) -> Result<(), Failure> {
    let mut locks = args.locks(client).await?;
    locks.sort_by(|a, b| args.sort.order(a, b).then_with(|| a.lock_name.cmp(&b.lock_name)));
    if args.output.json {
        return locks.iter().try_for_each(print_json);
    }
    let screen = Screen::of_stdout();
    let shown = if args.full { screen.unbounded() } else { screen };
    let text = table(&locks, args.full).render(shown);
    match (again, locks.is_empty()) {
        // On a terminal, each list replaces the one before; otherwise it is appended.
        (true, _) if screen.width.is_some() => print(&format!("{CLEAR}{text}")),
        (true, _) => print(&format!("{text}\n")),
        (false, true) => say_none(args),
        (false, false) => print(&text),
    }
}

impl Sort {
    fn order(self, a: &LockState, b: &LockState) -> Ordering {
        let first = |lock: &LockState| lock.holders.first().cloned();
        let since = |lock: &LockState| first(lock).map(|holder| Reverse(holder.held_ms));
        // Locks without holders come last.
        let left = |lock: &LockState| {
            first(lock).map_or(u64::MAX, |it| it.expires_in_ms.unwrap_or(u64::MAX - 1))
        };
        let owner = |lock: &LockState| first(lock).map(|holder| holder.owner_id);
        match self {
            Sort::Name => Ordering::Equal,
            Sort::Owner => (owner(a).is_none(), owner(a)).cmp(&(owner(b).is_none(), owner(b))),
            Sort::Since => (since(a).is_none(), since(a)).cmp(&(since(b).is_none(), since(b))),
            Sort::Left => left(a).cmp(&left(b)),
            Sort::Waiting => b.n_waiting.cmp(&a.n_waiting),
        }
    }
}

impl LsArgs {
    /// Returns all locks that match the filters, from all pages.
    async fn locks(&self, client: &Client) -> Result<Vec<LockState>, Failure> {
        let asked = self.state.map(|state| match state {
            State::Held => Standing::Held,
            State::Waiting => Standing::Waiting,
            State::Free => Standing::Free,
        });
        let mut query = self.query(asked);
        let mut locks = Vec::new();
        loop {
            let page = client.list(&query).await?;
            locks.extend(page.locks);
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        if !self.all && self.state.is_none() {
            // A lock in its grace period has no holder, but is not free either.
            locks.retain(|lock| standing(lock) != "free" || lock.n_waiting > 0);
        }
        Ok(locks)
    }

    fn query(&self, standing: Option<Standing>) -> ListQuery {
        let (prefix, owner) = (self.prefix.clone(), self.owner.clone());
        ListQuery { prefix, owner, standing, limit: Some(PAGE), cursor: None }
    }
}

/// Prints the note to standard error, so that a script that counts output lines counts none.
fn say_none(args: &LsArgs) -> Result<(), Failure> {
    let is_default = !args.all && args.state.is_none();
    say(if is_default { "no lock is held (--all shows every lock)" } else { "there are no locks" });
    Ok(())
}

fn table(locks: &[LockState], is_full: bool) -> Table {
    let mut table = Table::new(["LOCK", "STATE", "OWNER", "TOKEN", "SINCE", "LEFT", "WAITING"]);
    table.paint(1, |screen, state| match state.trim_end() {
        "free" => screen.green(state),
        "reserved" => screen.yellow(state),
        _ => screen.cyan(state),
    });
    for lock in locks {
        rows(lock, &mut table, is_full);
    }
    table
}

/// Adds one row for each holder. The first row also shows the waiters.
fn rows(lock: &LockState, table: &mut Table, is_full: bool) {
    let mut waiting = waiting(lock, if is_full { usize::MAX } else { NAMED_MAX });
    for holder in &lock.holders {
        table.row([
            lock.lock_name.clone(),
            standing(lock),
            holder.owner_id.clone(),
            holder.fencing_token.to_string(),
            ago(holder.held_ms),
            left(holder.expires_in_ms),
            std::mem::replace(&mut waiting, "-".into()),
        ]);
    }
    if lock.holders.is_empty() {
        let grace = lock.grace_owner_id.as_ref();
        table.row([
            lock.lock_name.clone(),
            standing(lock),
            grace.cloned().unwrap_or_else(|| "-".into()),
            lock.last_token.to_string(),
            "-".into(),
            grace.map_or("-".into(), |_| left(lock.grace_remaining_ms)),
            waiting,
        ]);
    }
}

/// Returns the number of waiters and some names: `4: ann, ben, cem, …`.
fn waiting(lock: &LockState, named_max: usize) -> String {
    if lock.n_waiting == 0 {
        return "-".into();
    }
    let queue = lock.queue.iter().flatten().take(named_max);
    let mut names: Vec<_> = queue.map(|waiter| waiter.owner_id.as_str()).collect();
    if lock.n_waiting > names.len() {
        names.push("…");
    }
    format!("{}: {}", lock.n_waiting, names.join(", "))
}
