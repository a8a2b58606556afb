//! `leasehold ls`: many locks, a line each.

use clap::{Args, ValueEnum};
use leasehold::api::LockState;
use leasehold::{ListQuery, Standing};

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::exit::Failure;
use crate::output::{OutputArgs, print, print_json};
use crate::screen::Screen;
use crate::status::{ago, left, standing};
use crate::table::Table;

/// As many as the server gives at once.
const PAGE: usize = 1000;
/// How many who wait are named.
const NAMED_MAX: usize = 3;

const EXAMPLES: &str = "\
Examples:
  leasehold ls
  leasehold ls deploy/ --state held
  leasehold ls --owner worker-1 --json | jq -r .lock_name

With --json there is one object a line, as `leasehold status --json` shows it, in no order.

Exit status: 0, also if there are none; 68 the server cannot be reached.";

/// List locks: who has them, since when and how long, and who waits behind.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LsArgs {
    /// Only locks whose name begins with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Only locks in this state.
    #[arg(long)]
    state: Option<State>,
    /// Only locks this owner has or waits for.
    #[arg(long)]
    owner: Option<String>,
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

pub(crate) fn ls(args: &LsArgs) -> Result<(), Failure> {
    ask(args.output, async {
        let client = args.server.client()?;
        let mut query = args.query();
        let mut locks = Vec::new();
        loop {
            let page = client.list(&query).await?;
            if args.output.json {
                page.locks.iter().try_for_each(print_json)?;
            } else {
                locks.extend(page.locks);
            }
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        match (args.output.json, locks.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => say_none(),
            (false, false) => print(&table(locks).render(Screen::of_stdout())),
        }
    })
}

impl LsArgs {
    fn query(&self) -> ListQuery {
        let standing = self.state.map(|state| match state {
            State::Held => Standing::Held,
            State::Waiting => Standing::Waiting,
            State::Free => Standing::Free,
        });
        let (prefix, owner) = (self.prefix.clone(), self.owner.clone());
        ListQuery { prefix, owner, standing, limit: Some(PAGE), cursor: None }
    }
}

/// Not on standard output: a script that counts lines counts none.
#[expect(clippy::print_stderr, reason = "a person should not wonder")]
fn say_none() -> Result<(), Failure> {
    eprintln!("there are none");
    Ok(())
}

fn table(mut locks: Vec<LockState>) -> Table {
    locks.sort_by(|a, b| a.lock_name.cmp(&b.lock_name));
    let mut table = Table::new(["LOCK", "STATE", "OWNER", "TOKEN", "SINCE", "LEFT", "WAITING"]);
    for lock in &locks {
        rows(lock, &mut table);
    }
    table
}

/// One for each holder; who waits is in the first.
fn rows(lock: &LockState, table: &mut Table) {
    let mut waiting = waiting(lock);
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

/// `4: ann, ben, cem, …`
fn waiting(lock: &LockState) -> String {
    if lock.n_waiting == 0 {
        return "-".into();
    }
    let queue = lock.queue.iter().flatten().take(NAMED_MAX);
    let mut names: Vec<_> = queue.map(|waiter| waiter.owner_id.as_str()).collect();
    if lock.n_waiting > names.len() {
        names.push("…");
    }
    format!("{}: {}", lock.n_waiting, names.join(", "))
}
