//! `leasehold session`: opens a session, with one keep-alive for any number of locks.

use std::time::Duration;

use clap::{Args, Subcommand};
use leasehold::api::{OpenSessionRequest, SessionOpened};
use leasehold::{Client, Error};
use serde_json::json;

use crate::ask::{ask, persist};
use crate::connection::ServerArgs;
use crate::duration::{DurationArg, glance, interval, lasting};
use crate::exit::Failure;
use crate::output::{OutputArgs, exports, plain, print, print_json, warn_short};
use crate::owner::OwnerArgs;

/// Time limit for closing a session whose id could not be printed.
const CLOSE_MAX: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Example:
  session=$(leasehold session open --ttl 1m --env) || exit
  eval \"$session\"
  leasehold session keep --every 20s &
  leasehold acquire shard-1
  leasehold acquire shard-2
  ...
  leasehold session close          # releases both locks

Exit status: 0; 75 the session has ended, with every lock in it; 68 the server cannot be reached.";

/// Open, keep alive, inspect or close a session.
///
/// Locks that are acquired in a session end with it, so one keep-alive renews all of them.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Subcommand, Debug)]
enum SessionCommand {
    /// Open a session.
    Open(OpenArgs),
    /// Keep a session alive: reset its TTL.
    Keep(KeepArgs),
    /// Show the owner of a session and the time left.
    Show(ThisArgs),
    /// Close a session, and release all its locks.
    Close(ThisArgs),
}

#[derive(Args, Debug)]
struct OpenArgs {
    /// Lifetime of the session without a keep-alive.
    #[arg(long, default_value = "30s", value_parser = lasting)]
    ttl: DurationArg,
    /// Print shell commands for `eval`.
    #[arg(long, conflicts_with = "json")]
    env: bool,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args, Debug)]
struct KeepArgs {
    #[command(flatten)]
    this: ThisArgs,
    /// Repeat at this interval until the session ends, at least 100ms. Less than half of the TTL is a good choice.
    #[arg(long, value_name = "TIME", value_parser = interval)]
    every: Option<DurationArg>,
}

#[derive(Args, Debug)]
struct ThisArgs {
    /// Session id; it is a secret, so prefer the variable.
    #[arg(env = "LEASEHOLD_SESSION", hide_env_values = true)]
    id: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn session(args: &SessionArgs) -> Result<(), Failure> {
    match &args.command {
        SessionCommand::Open(args) => ask(args.output, open(args)),
        SessionCommand::Keep(args) => ask(args.this.output, keep(args)),
        SessionCommand::Show(args) => ask(args.output, show(args)),
        SessionCommand::Close(args) => ask(args.output, close(args)),
    }
}

async fn open(args: &OpenArgs) -> Result<(), Failure> {
    let request = OpenSessionRequest { owner_id: args.owner.name(), ttl_ms: args.ttl.millis() };
    let client = args.server.reach().await?;
    let opened = client.open_session(&request).await?;
    warn_short(&client, args.ttl.0, Duration::ZERO);
    match show_opened(args, &opened) {
        Ok(()) => Ok(()),
        // The id of the session was not printed, so no client could close it.
        Err(failure) => {
            let closed = tokio::time::timeout(CLOSE_MAX, end(&client, &opened.session_id)).await;
            let is_told = !failure.why.is_empty() && matches!(closed, Ok(Ok(())));
            Err(if is_told {
                failure.and(": could not write the result, so the session was closed")
            } else {
                failure
            })
        }
    }
}

fn show_opened(args: &OpenArgs, opened: &SessionOpened) -> Result<(), Failure> {
    if args.output.json {
        return print_json(opened);
    }
    let (id, owner) = (&opened.session_id, &opened.owner_id);
    if args.env {
        let session = [("LEASEHOLD_SESSION", id.as_str()), ("LEASEHOLD_OWNER", owner)];
        return print(&exports(&[&session[..], &args.server.exports()].concat()));
    }
    let left = glance(Duration::from_millis(opened.expires_in_ms));
    print(&format!("session  {}\nowner    {}\nleft     {left}", plain(id), plain(owner)))
}

async fn keep(args: &KeepArgs) -> Result<(), Failure> {
    let client = args.this.server.reach().await?;
    loop {
        let kept = persist(|| client.keep_session(&args.this.id)).await?;
        if args.this.output.json {
            print_json(&kept)?;
        } else {
            print(&format!("kept for {}", glance(Duration::from_millis(kept.expires_in_ms))))?;
        }
        let Some(DurationArg(pause)) = args.every else { return Ok(()) };
        tokio::time::sleep(pause).await;
    }
}

async fn show(args: &ThisArgs) -> Result<(), Failure> {
    let seen = args.server.reach().await?.look_session(&args.id).await?;
    if args.output.json {
        return print_json(&seen);
    }
    let left = glance(Duration::from_millis(seen.expires_in_ms));
    print(&format!("owner    {}\nleft     {left}", plain(&seen.owner_id)))
}

async fn close(args: &ThisArgs) -> Result<(), Failure> {
    end(&args.server.reach().await?, &args.id).await?;
    if args.output.json {
        print_json(&json!({"closed": true}))
    } else {
        print("the session is closed")
    }
}

async fn end(client: &Client, id: &str) -> Result<(), Error> {
    let may_be_closed = std::cell::Cell::new(false);
    persist(|| async {
        match client.close_session(id).await {
            // An earlier attempt might have closed the session.
            Err(Error::Failed { status: 404, .. }) if may_be_closed.get() => Ok(()),
            done => done.inspect_err(|error| {
                may_be_closed.set(may_be_closed.get() || error.may_have_taken_effect());
            }),
        }
    })
    .await
}
