//! `leasehold status`: shows the state of one lock.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use leasehold::api::LockState;

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::duration::glance;
use crate::exit::{CONFLICT, Failure};
use crate::output::{OutputArgs, plain, print, print_json};
use crate::screen::Screen;
use crate::table::Table;

const EXAMPLES: &str = "\
Examples:
  leasehold status nightly
  leasehold status nightly --json | jq .holders
  leasehold status nightly --exit-code >/dev/null && echo free

Exit status: 0; with --exit-code 1 if the lock is held, reserved or waited for. 68 the server cannot be reached.";

/// Show the holders and waiters of a lock.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Name of the lock.
    lock: String,
    /// Exit with 1 if the lock is not free.
    #[arg(short, long)]
    exit_code: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    ask(args.output, async {
        let state = args.server.reach().await?.look(&args.lock).await?;
        if args.output.json {
            print_json(&state)?;
        } else {
            print(&page(&state, Screen::of_stdout()))?;
        }
        let is_free = standing(&state) == "free" && state.n_waiting == 0;
        let is_conflict = args.exit_code && !is_free;
        Ok(if is_conflict { ExitCode::from(CONFLICT) } else { ExitCode::SUCCESS })
    })
}

/// Returns the state of a lock, in one or two words.
pub(crate) fn standing(state: &LockState) -> String {
    match state.holders.first() {
        None if state.grace_owner_id.is_some() => "reserved".into(),
        None => "free".into(),
        Some(holder) => match holder.limit {
            Some(limit) => format!("{} of {limit}", state.holders.len()),
            None if holder.mode == "shared" => "shared".into(),
            None => "held".into(),
        },
    }
}

/// Formats how long ago an event was.
pub(crate) fn ago(ms: u64) -> String {
    format!("{} ago", glance(Duration::from_millis(ms)))
}

/// Formats the time left, which is unlimited if there is no deadline.
pub(crate) fn left(ms: Option<u64>) -> String {
    ms.map_or("for ever".into(), |ms| glance(Duration::from_millis(ms)))
}

fn page(state: &LockState, screen: Screen) -> String {
    let name = screen.bold(plain(&state.lock_name));
    let mut parts = vec![format!("{name}: {}, last token {}", standing(state), state.last_token)];
    if !state.holders.is_empty() {
        parts.push(holders(state).render(screen));
    }
    if let Some(owner) = &state.grace_owner_id {
        let left = left(state.grace_remaining_ms);
        parts.push(format!("only {} can acquire it, for {left}", plain(owner)));
    }
    let queue = state.queue.as_deref().unwrap_or_default();
    if !queue.is_empty() {
        parts.push(waiters(state).render(screen));
    }
    if state.n_waiting > queue.len() {
        parts.push(format!("and {} more", state.n_waiting - queue.len()));
    }
    parts.join("\n\n")
}

fn holders(state: &LockState) -> Table {
    // The metadata comes last: it is the column that is most likely to be cut.
    let mut table = Table::new(["HOLDER", "MODE", "TOKEN", "SINCE", "LEFT", "METADATA"]);
    for holder in &state.holders {
        table.row([
            holder.owner_id.clone(),
            holder.mode.clone(),
            holder.fencing_token.to_string(),
            ago(holder.held_ms),
            left(holder.expires_in_ms),
            holder.metadata.as_ref().map_or("-".into(), ToString::to_string),
        ]);
    }
    table
}

fn waiters(state: &LockState) -> Table {
    let mut table = Table::new(["#", "WAITING", "SINCE", "CONNECTION"]);
    for waiter in state.queue.iter().flatten() {
        table.row([
            waiter.position.to_string(),
            waiter.owner_id.clone(),
            ago(waiter.waiting_ms),
            if waiter.parked { "away" } else { "there" }.into(),
        ]);
    }
    table
}
