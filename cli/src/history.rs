//! `leasehold history`: past events of a lock, or of the leases of an owner.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use leasehold::HistoryQuery;
use leasehold::api::PastEvent;
use serde_json::json;

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::duration::DurationArg;
use crate::exit::Failure;
use crate::output::{OutputArgs, print_json};
use crate::watch::show;

/// Maximum events in one page of the server's response.
const PAGE_MAX: usize = 1000;

const EXAMPLES: &str = "\
Examples:
  leasehold history nightly
  leasehold history nightly --since 2h
  leasehold history --owner host-7 --limit 20 --json | jq -r .lock_name

The newest event comes first. The server keeps history for --history-age-max and --history-bytes-max.

Exit status: 0; 68 the server cannot be reached.";

/// Show the history of locks, newest event first.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HistoryArgs {
    /// Name of the lock [default: all locks of the namespace]
    lock: Option<String>,
    /// Show only events of leases of this owner.
    #[arg(long)]
    owner: Option<String>,
    /// Show only events from this long ago until now, such as 2h.
    #[arg(long, value_name = "DURATION")]
    since: Option<DurationArg>,
    /// Maximum number of events.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn history(args: &HistoryArgs) -> Result<(), Failure> {
    ask(args.output, tell(args))
}

async fn tell(args: &HistoryArgs) -> Result<(), Failure> {
    let client = args.server.reach().await?;
    let since = args.since.and_then(|since| SystemTime::now().checked_sub(since.0));
    let since = since.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let mut query = HistoryQuery {
        lock: args.lock.clone(),
        owner: args.owner.clone(),
        since_ms: since.map(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
        ..HistoryQuery::default()
    };
    let mut n_left = args.limit;
    while n_left > 0 {
        query.limit = Some(n_left.min(PAGE_MAX));
        let page = client.history(&query).await?;
        n_left = n_left.saturating_sub(page.events.len());
        for past in &page.events {
            show_past(args.output, past)?;
        }
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    Ok(())
}

fn show_past(output: OutputArgs, past: &PastEvent) -> Result<(), Failure> {
    if output.json { print_json(&json!(past)) } else { show(output, &past.id, &past.event) }
}
