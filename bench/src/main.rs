//! A rough measurement: acquire and release over HTTP with durability on, beside a bare hyper server, in the
//! same run, interleaved, medians of several rounds.
//!
//! `cargo run --release -p leasehold-bench -- rates|million [--rounds N] [--seconds S]`
//!
//! The load runs on one thread of this process and shares the machine with the server it measures.

mod hello;
mod load;
mod million;
mod rates;

use std::path::PathBuf;

/// What the command line says.
pub(crate) struct Args {
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    /// On a real disk: durability costs nothing on a file system in memory.
    pub(crate) data: PathBuf,
    /// The server to measure.
    pub(crate) binary: String,
}

#[expect(clippy::print_stderr, reason = "this is a command")]
fn main() {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let mut args = Args {
        rounds: 5,
        seconds: 2.0,
        data: PathBuf::from("target/bench-data"),
        binary: "target/release/leasehold".into(),
    };
    while let (Some(flag), Some(value)) = (words.next(), words.next()) {
        match flag.as_str() {
            "--rounds" => args.rounds = value.parse().expect("a number"),
            "--seconds" => args.seconds = value.parse().expect("a number"),
            "--data" => args.data = value.into(),
            "--binary" => args.binary = value,
            other => panic!("no flag is called {other}"),
        }
    }
    match what.as_str() {
        "hello" => hello::serve(),
        "rates" => rates::run(&args),
        "million" => million::run(&args),
        _ => eprintln!("leasehold-bench rates|million [--rounds N] [--seconds S] [--data DIR]"),
    }
}
