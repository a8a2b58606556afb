//! Acquire and release at several numbers of connections, beside the bare server.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use leasehold_testkit::Process;

use crate::Args;
use crate::load::{self, AcquireRelease, Hello};

const CONNECTIONS: [usize; 4] = [1, 8, 64, 256];

/// The bare server, killed at the end.
struct HelloProcess {
    child: Child,
    address: SocketAddr,
}

impl HelloProcess {
    fn start() -> Self {
        let binary = std::env::current_exe().expect("this program");
        let mut child =
            Command::new(binary).arg("hello").stdout(Stdio::piped()).spawn().expect("hello");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("its port");
        let address = SocketAddr::from(([127, 0, 0, 1], line.trim().parse().expect("a port")));
        Self { child, address }
    }
}

impl Drop for HelloProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::print_stdout, reason = "this is the result")]
pub(crate) fn run(args: &Args) {
    let _ = std::fs::remove_dir_all(&args.data);
    std::fs::create_dir_all(&args.data).expect("a folder");
    let leasehold = Process::start(&args.binary, &args.data.join("data"), &[]);
    let hello = HelloProcess::start();
    println!("connections  hello/s  leasehold/s  ratio (min..max)   p50 ms   p99 ms");
    for n in CONNECTIONS {
        let (mut rates, mut latencies) = (Vec::new(), Vec::new());
        for _ in 0..args.rounds {
            let (bare, _) = load::run(hello.address, n, args.seconds, Hello);
            let (ours, more) = load::run(leasehold.address, n, args.seconds, AcquireRelease);
            rates.push((ours / bare, bare, ours));
            latencies.extend(more);
        }
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        latencies.sort_unstable();
        let (ratio, bare, ours) = rates[rates.len() / 2];
        let (min, max) = (rates[0].0, rates[rates.len() - 1].0);
        // Two requests make one round.
        let ms = |at: usize| latencies[at].as_secs_f64() * 500.0;
        println!(
            "{n:11}  {bare:7.0}  {ours:11.0}  {ratio:.2} ({min:.2}..{max:.2})  {:7.2}  {:7.2}",
            ms(latencies.len() / 2),
            ms(latencies.len() * 99 / 100),
        );
    }
}
