//! `leasehold watch`: prints events of locks as they happen.

use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use leasehold::Watched;
use leasehold::api::{Event, EventKind};
use serde_json::json;

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::exit::Failure;
use crate::output::{self, OutputArgs, plain, print, print_json};

const EXAMPLES: &str = "\
Examples:
  leasehold watch
  leasehold watch nightly --count 1            # until the next event
  leasehold watch --prefix deploy/ --json | jq -r .lock_name

The command continues after broken connections and server restarts. A line with `gap` means that events might be
missing: then check your locks. With --json, each line is one object; a gap is
{\"kind\":\"gap\",\"reason\":...}; pass the `id` of the last event to --since.

Exit status: 0 after --count events; 68 the server could not be reached at the start.";

/// Show the events of locks, one line for each.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// Show only this lock [default: all locks]
    lock: Option<String>,
    /// Show only locks whose name starts with this.
    #[arg(long, conflicts_with = "lock")]
    prefix: Option<String>,
    /// Continue after the event with this id [default: start now]
    #[arg(long, value_name = "ID")]
    since: Option<String>,
    /// Exit after this many events.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn watch(args: &WatchArgs) -> Result<(), Failure> {
    ask(args.output, follow(args))
}

async fn follow(args: &WatchArgs) -> Result<(), Failure> {
    let prefix = args.lock.as_ref().or(args.prefix.as_ref());
    let mut events = args.server.reach().await?.watch(prefix.cloned().unwrap_or_default());
    if let Some(id) = &args.since {
        events = events.since(id);
    }
    events.connect().await?;
    let mut n_events = 0;
    loop {
        match events.next().await {
            Ok(Watched::Event { id, event }) => {
                if args.lock.as_ref().is_none_or(|lock| *lock == event.lock_name) {
                    show(args.output, &id, &event)?;
                    n_events += 1;
                }
            }
            Ok(Watched::Gap(gap)) => {
                show_note(args.output, "gap", "events might be missing here", &gap.reason)?;
            }
            Ok(Watched::Stale { reason }) => {
                show_note(args.output, "stale", "events might be late", &reason)?;
            }
            Ok(Watched::Current { reason }) => {
                show_note(args.output, "current", "events are no longer late", &reason)?;
            }
            Err(error) if error.is_retryable() => say(&error.to_string()),
            Err(error) => return Err(error.into()),
        }
        if Some(n_events) == args.count {
            return Ok(());
        }
    }
}

pub(crate) fn show(output: OutputArgs, id: &str, event: &Event) -> Result<(), Failure> {
    if output.json {
        let mut shown = json!(event);
        shown["id"] = id.into();
        return print_json(&shown);
    }
    let Event { lock_name, owner_id, fencing_token, .. } = event;
    let kind = match event.kind {
        EventKind::Queued => "queued",
        EventKind::Granted => "granted",
        EventKind::Released => "released",
        EventKind::Expired => "expired",
        EventKind::Revoked => "revoked",
        EventKind::WaitEnded => "wait ended",
        EventKind::HeldLong => "held too long",
        EventKind::WaitedLong => "waited too long",
        EventKind::DeadlockSuspected => "deadlock suspected",
    };
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(event.at_ms).unwrap_or(0));
    let at = humantime::format_rfc3339_millis(at);
    let [lock, owner] = [lock_name, owner_id].map(|text| plain(text));
    let why = event.reason.as_ref().map_or(String::new(), |why| format!("  ({})", plain(why)));
    print(&format!("{at}  {kind:<12}  {lock}  {owner}  token {fencing_token}{why}"))
}

/// Prints an event about the stream itself, not about a lock.
fn show_note(output: OutputArgs, kind: &str, what: &str, reason: &str) -> Result<(), Failure> {
    if output.json {
        return print_json(&json!({"kind": kind, "reason": reason}));
    }
    print(&format!("{kind}: {what}: {}", plain(reason)))
}

fn say(what: &str) {
    output::say(&format!("leasehold: {}; still trying", plain(what)));
}
