//! A million held locks: memory for each, starting with them, and rates beside them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leasehold_testkit::Process;

use crate::Args;
use crate::load::{self, AcquireRelease, Connection, Work};

const N: usize = 1_000_000;

/// Acquires a lock nobody else wants, for a day.
#[derive(Clone, Copy)]
struct Hold;

impl Work for Hold {
    async fn once(self, connection: &mut Connection, n: usize, round: usize) -> usize {
        let path = format!("/v1/locks/held-{n}-{round}/acquire");
        let (status, answer) =
            connection.post(&path, "{\"owner_id\":\"holder\",\"ttl_ms\":86400000}").await;
        assert_eq!(status, 200, "{answer}");
        1
    }
}

#[expect(clippy::print_stdout, reason = "this is the result")]
pub(crate) fn run(args: &Args) {
    let _ = std::fs::remove_dir_all(&args.data);
    std::fs::create_dir_all(&args.data).expect("a folder");
    let data = args.data.join("data");
    let server = Process::start(&args.binary, &data, &[]);
    let before = resident_bytes(server.id());
    let (rate, _) = load::run(server.address, 64, args.seconds, AcquireRelease);
    println!("empty: {rate:.0} requests/s at 64 connections");
    fill(server.address);
    let after = resident_bytes(server.id());
    println!("{} bytes of memory per held lock", (after - before) / N as u64);
    let (rate, latencies) = load::run(server.address, 64, 10.0, AcquireRelease);
    println!(
        "beside {N} held, folding: {rate:.0} requests/s at 64 connections, {}",
        spread(latencies)
    );
    std::thread::sleep(Duration::from_secs(10));
    let (rate, latencies) = load::run(server.address, 64, args.seconds, AcquireRelease);
    println!("beside {N} held: {rate:.0} requests/s at 64 connections, {}", spread(latencies));
    assert!(server.terminate().success());
    for _ in 0..3 {
        let began = Instant::now();
        let server = Process::start(&args.binary, &data, &[]);
        println!("start with {N} held: {:.2} s", began.elapsed().as_secs_f64());
        println!("  {} bytes of memory per held lock", resident_bytes(server.id()) / N as u64);
        server.kill();
    }
    let _ = std::fs::remove_dir_all(&args.data);
}

fn fill(address: SocketAddr) {
    const CONNECTIONS: usize = 256;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime.expect("a runtime"), async {
        let one = move |n: usize| async move {
            let mut connection = Connection::open(address).await;
            for round in 0..N / CONNECTIONS {
                Hold.once(&mut connection, n, round).await;
            }
        };
        let spawned: Vec<_> = (0..CONNECTIONS).map(|n| tokio::task::spawn_local(one(n))).collect();
        for task in spawned {
            task.await.expect("no panic");
        }
    });
}

fn spread(mut latencies: Vec<Duration>) -> String {
    latencies.sort_unstable();
    let ms = |at: usize| latencies[at].as_secs_f64() * 500.0;
    let n = latencies.len();
    format!(
        "p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms",
        ms(n / 2),
        ms(n * 99 / 100),
        ms(n * 999 / 1000)
    )
}

fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number") * 1024
}
