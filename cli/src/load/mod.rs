//! `leasehold load`: puts a server under load from many clients, some of which simulate crashes, and checks its
//! guarantees.

mod client;
mod downstream;
mod history;
mod plan;
mod progress;
mod report;
mod tally;
mod world;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use plan::Plan;
use progress::Progress;
use report::Report;
use tokio::task::JoinSet;
use world::World;

use crate::ask::told;
use crate::connection::ConnectionArgs;
use crate::exit::{BROKEN, FAILED, Failure, SIGNAL, SYSTEM};
use crate::output::{OutputArgs, print, print_json};
use crate::screen::Screen;

/// Time limit for overtaking paused clients after the end of the run, in addition to twice the TTL.
const CLOSING_MAX: Duration = Duration::from_secs(15);
/// Interval for checking which clients are still paused.
const CLOSING_PAUSE: Duration = Duration::from_millis(20);
const INTERRUPT: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  leasehold load                                             # 80 clients, one lock, 20s
  leasehold load --clients 200 --locks 50 --duration 1m --failrate 0
  leasehold load --ttl 500ms --hold 1s --failrate 0.2        # leases need renewals; many pauses
  leasehold load --json | jq .stale_writes

Each client acquires a lock, holds it, writes with its token, and releases it. Some clients act as if they were
paused for too long: they wait until another client has written, and then write, renew and release with their old
lease. The server must refuse all of these requests.

Exit status: 0 the server kept all guarantees; 70 it broke one: two holders at the same time, a token that did not
increase, or an accepted stale request; 1 no lock was ever acquired; 68 the server cannot be reached. Ctrl-C ends the
run early and prints the report.";

/// Put a server under load and check whether it keeps its guarantees.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(crate) fn load(args: LoadArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::new(SYSTEM, error))?;
    let report = runtime.block_on(report(&args));
    runtime.shutdown_background();
    let report = told(args.output, report)?;
    if args.output.json {
        print_json(&report)?;
    } else {
        print(&report.render(Screen::of_stdout()))?;
    }
    Ok(ExitCode::from(match &report {
        report if report.n_breaches > 0 => BROKEN,
        report if report.n_grants == 0 => FAILED,
        _ => 0,
    }))
}

async fn report(args: &LoadArgs) -> Result<Report, Failure> {
    args.plan.check()?;
    let client = args.connection.client()?;
    args.connection.server.greet(&client).await?;
    let world = Arc::new(World::new(client, args.plan.clone()));
    let progress = Progress::start(&world);
    let mut clients = JoinSet::new();
    for number in 0..args.plan.clients {
        clients.spawn(client::live(world.clone(), number));
    }
    tokio::select! {
        () = world.end() => {}
        () = interrupt() => world.stop(),
    }
    let took = world.took();
    tokio::select! {
        () = close(&world, clients) => {}
        () = interrupt() => return Err(Failure::silent(SIGNAL + INTERRUPT)),
    }
    progress.finish();
    Ok(Report::new(&world, took))
}

/// Waits for the clients to end, and overtakes paused clients so that they can continue.
async fn close(world: &Arc<World>, mut clients: JoinSet<()>) {
    let ended = async { while clients.join_next().await.is_some() {} };
    let overtaking = async {
        loop {
            for lock in world.paused() {
                client::overtake(world, lock).await;
            }
            tokio::time::sleep(CLOSING_PAUSE).await;
        }
    };
    tokio::select! {
        () = ended => {}
        () = overtaking => {}
        () = tokio::time::sleep(world.plan.ttl.0 * 2 + CLOSING_MAX) => {}
    }
}

async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
