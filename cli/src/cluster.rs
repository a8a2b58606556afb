//! `leasehold cluster` and `leasehold upgrade`: an operator inspects and controls a cluster through keys in etcd.

use clap::{Args, Subcommand};
use leasehold_server::cluster::{self, Location};
use leasehold_store::Error;
use leasehold_store::shared::Operator;
use leasehold_store::status::{Status, Unreached, Unreadable};
use serde_json::{Value, json};

use crate::ask::told;
use crate::config::EtcdArgs;
use crate::exit::Failure;
use crate::output::{OutputArgs, plain, print, print_json};
use crate::screen::Screen;
use crate::table::Table;

/// Show and control a cluster that is backed by etcd.
#[derive(Args)]
#[command(after_help = "Example:\n  leasehold cluster status --store etcd://etcd1:2379/leasehold")]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Subcommand)]
enum ClusterCommand {
    /// Show the leader, the followers and how far behind they are, what is paused or drained, and the health of etcd.
    Status(ClusterStoreArgs),
    /// Make the leader hand over to another server. It does not lead again for 10 seconds.
    StepDown(ClusterStoreArgs),
    /// Make a server give up leadership and refuse new connections until it is resumed. It keeps following.
    Drain(NodeArgs),
    /// Prevent servers from becoming leader, for maintenance of etcd. The current leader continues.
    Pause(ClusterStoreArgs),
    /// Undo a pause, or the drain of a server.
    Resume(ResumeArgs),
    /// Remove a server that will not come back.
    ForgetNode(NodeArgs),
}

#[derive(Args)]
struct ClusterStoreArgs {
    /// Store of the cluster: etcd://HOST:PORT,HOST:PORT/PREFIX.
    #[arg(long, env = "LEASEHOLD_STORE", hide_env_values = true)]
    store: Location,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
struct NodeArgs {
    /// Name of the server (node-name).
    node: String,
    #[command(flatten)]
    store: ClusterStoreArgs,
}

#[derive(Args)]
struct ResumeArgs {
    /// Server whose drain to undo [default: undo the pause of the cluster]
    node: Option<String>,
    #[command(flatten)]
    store: ClusterStoreArgs,
}

#[derive(Args)]
pub(crate) struct UpgradeArgs {
    /// Write the newest format from now on. First upgrade every server to a version that reads it: older versions can
    /// then neither lead nor follow, and this cannot be undone.
    #[arg(long, required = true)]
    finish: bool,
    #[command(flatten)]
    store: ClusterStoreArgs,
}

pub(crate) fn cluster(args: &ClusterArgs) -> Result<(), Failure> {
    match &args.command {
        ClusterCommand::Status(args) => told(args.output, status(args)),
        ClusterCommand::StepDown(args) => args.done(|operator| {
            if operator.clear_seat()? {
                let words = "deleted a stale leader key; a server can take over now";
                return Ok((json!({"stepping_down": null, "deleted": "leader"}), words.into()));
            }
            let node = operator.step_down()?;
            let mut words = format!("{node} hands over within a second");
            let status = operator.look()?;
            if status.paused {
                words.push_str("; no server takes over, because the cluster is paused (leasehold cluster resume)");
            } else if status.is_alone(&node) {
                words.push_str(". No other server can lead: the cluster has no leader for 10 seconds");
            }
            Ok((json!({"stepping_down": node}), words))
        }),
        ClusterCommand::Drain(NodeArgs { node, store }) => store.done(|operator| {
            operator.drain(node)?;
            let mut words = format!(
                "{node} no longer leads or accepts connections; to undo, run leasehold cluster resume {node}"
            );
            if operator.look()?.is_alone(node) {
                words.push_str(". No other server can lead");
            }
            Ok((json!({"drained": node}), words))
        }),
        ClusterCommand::Pause(args) => args.done(|operator| {
            operator.pause()?;
            let now = match operator.look()?.leader {
                Some(leader) => format!("the leader {} continues", leader.node),
                None => "the cluster has no leader and stays without one".into(),
            };
            let words = format!("no server can become leader; {now}. To undo, run leasehold cluster resume");
            Ok((json!({"paused": true}), words))
        }),
        ClusterCommand::Resume(ResumeArgs { node, store }) => store.done(|operator| {
            let was_there = operator.resume(node.as_deref())?;
            let words = match (node, was_there) {
                (Some(node), true) => format!("{node} can lead and accepts connections again"),
                (Some(node), false) => format!("{node} was not drained"),
                (None, true) => "servers can become leader again".into(),
                (None, false) => "the servers were not paused".into(),
            };
            Ok((json!({"resumed": was_there}), words))
        }),
        ClusterCommand::ForgetNode(NodeArgs { node, store }) => store.done(|operator| {
            operator.forget(node)?;
            let words = format!("removed {node}; if it still runs, it registers again within seconds");
            Ok((json!({"forgotten": node}), words))
        }),
    }
}

pub(crate) fn upgrade(args: &UpgradeArgs) -> Result<(), Failure> {
    args.store.done(|operator| {
        let (from, to) = operator.finish_upgrade()?;
        let words = match from == to {
            true => format!("nothing to finish: the store already has format {to}"),
            false => format!("the store now has format {to}; before: {from}"),
        };
        Ok((json!({"format": to, "from": from}), words))
    })
}

impl ClusterStoreArgs {
    fn operate<T>(&self, work: impl FnOnce(&Operator) -> Result<T, Error>) -> Result<T, Failure> {
        let reach = || {
            let backend = cluster::reach(&self.etcd.access(self.store.clone()))?;
            work(&Operator::new(backend))
        };
        reach().map_err(|error| Failure::from(error.to_string()))
    }

    /// Runs an operation and prints its result.
    fn done(
        &self,
        work: impl FnOnce(&Operator) -> Result<(Value, String), Error>,
    ) -> Result<(), Failure> {
        let told_of = self.operate(work).and_then(|(value, words)| match self.output.json {
            true => print_json(&value),
            false => print(&plain_lines(&words)),
        });
        told(self.output, told_of)
    }
}

fn status(args: &ClusterStoreArgs) -> Result<(), Failure> {
    let status = args.operate(Operator::status)?;
    if args.output.json {
        return print_json(&status);
    }
    print(&shown(args, &status))
}

fn shown(args: &ClusterStoreArgs, status: &Status) -> String {
    let Status { head, snapshot, format, generation, .. } = status;
    let mut lines = vec![
        format!("store     {} (format {format}, generation {generation:x})", args.store),
        format!("journal   last record {head}; the snapshot ends at {snapshot}"),
    ];
    lines.push(match &status.leader {
        Some(leader) => {
            format!("leader    {} at {}, version {}", leader.node, leader.address, leader.version)
        }
        None => "leader    none".into(),
    });
    if status.paused {
        lines.push("paused    no server can become leader (leasehold cluster resume)".into());
    }
    if status.rewound {
        lines.push("rewound   the store was rolled back; run leasehold restore --store".into());
    }
    if let Some(moved_to) = &status.moved_to {
        lines.push(format!("closed    the store has moved to {moved_to}"));
    }
    let damaged = status.unreadable.iter();
    lines.extend(damaged.map(|Unreadable { key, why, remedy }| {
        format!("damaged   {key} is not what a server wrote ({why}): {remedy}")
    }));
    let mut nodes = Table::new(["NODE", "ADDRESS", "VERSION", "FORMATS", "BEHIND", "STATE"]);
    for node in &status.nodes {
        let state = match status.drained(&node.node) {
            Some(how) => how.to_owned(),
            None if status.is_leader(&node.node) => "leads".into(),
            None => "follows".into(),
        };
        let state = match &node.unreached {
            Some(Unreached { leader, why }) => format!("{state}; cannot reach {leader}: {why}"),
            None => state,
        };
        let formats: Vec<_> = node.formats.iter().map(u32::to_string).collect();
        let behind = match (status.records_behind(node), status.seconds_behind(node)) {
            (n, None | Some(0)) => n.to_string(),
            (n, Some(seconds)) => format!("{n} ({seconds}s)"),
        };
        let (name, address, version) = (&node.node, &node.address, &node.version);
        let cells = [name.clone(), address.clone(), version.clone(), formats.join(","), behind];
        let [a, b, c, d, e] = cells;
        nodes.row([a, b, c, d, e, state]);
    }
    let mut etcd = Table::new(["ETCD", "VERSION", "IN USE", "FILE", "ALARMS"]);
    for member in &status.members {
        let alarms = member.error.clone().unwrap_or_else(|| member.alarms.join(", "));
        let [in_use, file] = [member.bytes_in_use, member.bytes].map(megabytes);
        etcd.row([member.endpoint.clone(), member.version.clone(), in_use, file, alarms]);
    }
    let gone = status
        .drained
        .iter()
        .filter(|(name, _)| !status.nodes.iter().any(|node| node.node == *name));
    lines.extend(gone.map(|(name, how)| format!("{how:<9} {name}, which is not there")));
    let lines: Vec<_> = lines.iter().map(|line| plain(line).into_owned()).collect();
    let screen = Screen::of_stdout();
    format!("{}\n{}\n{}", lines.join("\n"), nodes.render(screen), etcd.render(screen))
}

fn megabytes(n_bytes: u64) -> String {
    format!("{:.1} MB", n_bytes as f64 / 1e6)
}

fn plain_lines(words: &str) -> String {
    words.lines().map(|line| plain(line).into_owned()).collect::<Vec<_>>().join("\n")
}
