//! Runs the simulation: `sim --seeds N [--from N]` runs many seeds, `sim --seed N [--trace]` runs one, and `--cluster`
//! simulates a cluster.
#![expect(clippy::print_stdout, reason = "this is a program for people to look at")]

use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str =
    "usage: sim [--cluster] --seeds N [--from N] | sim [--cluster] --seed N [--trace]";

struct Arguments {
    from: u64,
    n_seeds: u64,
    is_traced: bool,
    run: fn(u64) -> sim::Report,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    let began = Instant::now();
    let (mut n_bad, mut n_operations, mut n_leases, mut n_faults, mut n_starts) = (0, 0, 0, 0, 0);
    let (mut n_epochs, mut n_compared) = (0, 0);
    for seed in arguments.from..arguments.from + arguments.n_seeds {
        let report = sim::twice(arguments.run, seed);
        if arguments.is_traced {
            print!("{}", report.trace);
        }
        n_bad += u64::from(!report.violations.is_empty());
        n_operations += report.n_operations;
        n_leases += report.n_leases;
        n_faults += report.n_faults;
        n_starts += report.n_starts;
        n_epochs += report.n_epochs;
        n_compared += report.n_compared;
        report.violations.iter().for_each(|violation| println!("seed {seed}: {violation}"));
    }
    println!(
        "{} seeds, each twice, in {:.1} s: {n_operations} operations, {n_leases} leases acknowledged, \
         {n_faults} faults, {n_starts} starts, {n_epochs} leader changes, {n_compared} states compared; \
         {n_bad} seeds with violations",
        arguments.n_seeds,
        began.elapsed().as_secs_f64()
    );
    ExitCode::from(u8::from(n_bad > 0))
}

fn parse(arguments: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut parsed = Arguments { from: 1, n_seeds: 0, is_traced: false, run: sim::run };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next()?.parse::<u64>().ok();
        match argument.as_str() {
            "--seeds" => parsed.n_seeds = number()?,
            "--from" => parsed.from = number()?,
            "--seed" => (parsed.from, parsed.n_seeds) = (number()?, 1),
            // A killed process is simulated by unwinding its threads, which is impossible in a build that aborts on
            // panic.
            "--cluster" if cfg!(panic = "abort") => {
                println!("--cluster needs a build that unwinds: cargo run -p sim");
                return None;
            }
            "--cluster" => parsed.run = sim::cluster::run,
            "--trace" => parsed.is_traced = true,
            _ => return None,
        }
    }
    (parsed.n_seeds > 0).then_some(parsed)
}
