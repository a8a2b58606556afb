//! Compares Leasehold with real peers: the same load, the same disk, the same run, in turns.
//!
//! `scripts/bench` installs the peers and runs this. The load runs on one thread of this process, and shares the
//! machine with the server that it measures.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

mod chart;
mod contest;
mod load;
mod machine;
mod peer;
mod report;
mod workload;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use contest::Pace;
use report::Report;
use workload::Setting;

/// Measures Leasehold and its peers.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    role: Option<Role>,
    /// Run for about two minutes: fewer and shorter rounds, fewer held locks.
    #[arg(long)]
    quick: bool,
    /// Only these workloads, by letter: a, b, c, d (with f and g), e, h, i, j, k, l, m.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Numbers of connections in (a).
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64, 256])]
    connections: Vec<usize>,
    /// How often each peer is measured.
    #[arg(long)]
    rounds: Option<usize>,
    /// Duration of each measurement, in seconds.
    #[arg(long)]
    seconds: Option<f64>,
    /// Data directory of the peers; must be on a real disk.
    #[arg(long, default_value = "target/bench")]
    data: PathBuf,
    /// Directory for the results.
    #[arg(long, default_value = "target/bench-results")]
    out: PathBuf,
    /// Server binary to measure.
    #[arg(long, default_value = "target/release/leasehold")]
    binary: String,
    /// Another build of the server, to measure the effect of a change; takes part in (a) and (k).
    #[arg(long)]
    rival: Option<String>,
    /// Only these peers take part in (a): http2, key, token, tls, audit, hello, redis, etcd, postgres, naive.
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
}

#[derive(Subcommand)]
enum Role {
    /// Run as one of the peers.
    #[command(hide = true)]
    Peer { name: String, folder: PathBuf },
}

fn main() {
    let args = Args::parse();
    if let Some(Role::Peer { name, folder }) = &args.role {
        return peer::play(name, folder);
    }
    std::fs::create_dir_all(&args.data).expect("a folder for data");
    std::fs::create_dir_all(&args.out).expect("a folder for results");
    if machine::is_in_memory(&args.data) {
        eprintln!("{} is in memory: nothing would be durable there", args.data.display());
        std::process::exit(2);
    }
    let setting = setting(&args);
    let mut report = Report::default();
    machine::describe(&mut report, &setting.data, &setting.binary);
    for (letter, run) in workload::ALL {
        if args.only.is_empty() || args.only.iter().any(|only| only == letter) {
            run(&setting, &mut report);
        }
    }
    let text = report.markdown();
    println!("{text}");
    let json = serde_json::to_string_pretty(&report).expect("JSON");
    std::fs::write(args.out.join("results.json"), json).expect("results");
    std::fs::write(args.out.join("results.md"), text).expect("results");
    let _ = std::fs::remove_dir_all(&setting.data);
}

fn setting(args: &Args) -> Setting {
    let (rounds, seconds) = if args.quick { (3, 0.25) } else { (5, 2.0) };
    Setting {
        pace: Pace {
            rounds: args.rounds.unwrap_or(rounds),
            seconds: args.seconds.unwrap_or(seconds),
        },
        connections: args.connections.clone(),
        n_held: if args.quick { 100_000 } else { 1_000_000 },
        sustained_s: if args.quick { 30 } else { 600 },
        data: args.data.clone(),
        binary: args.binary.clone(),
        rival: args.rival.clone(),
        peers: args.peers.clone(),
        out: args.out.clone(),
    }
}
