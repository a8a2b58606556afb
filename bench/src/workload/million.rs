//! (d), (f), (g) a million held locks: the rate with them, the memory of each, and a start with them.

use std::time::{Duration, Instant};

use super::Setting;
use crate::contest::Spread;
use crate::load::{self, Work};
use crate::machine::resident_bytes;
use crate::peer::{Leasehold, Peer, Redis, Sync};
use crate::report::Report;

const N_FILLERS: usize = 256;
const TTL_MS: u64 = 86_400_000;
/// The name of one of the held locks.
const HELD: &str = "held-0-0";

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let progress = setting.progress("(d) million", 5 + 2 * setting.pace.rounds);
    let n = setting.n_held;
    let (empty_peer, ours) = (
        Leasehold::start(&setting.data.join("empty"), &setting.binary),
        Leasehold::start(&setting.data, &setting.binary),
    );
    let our_memory = fill_ours(&ours, n);
    progress.inc(1);
    let redis = Redis::start(&setting.data, Sync::Always);
    let redis_memory = fill_redis(&redis, n);
    progress.inc(1);
    // Waits until everything is folded, before the rates are compared. The sustained run includes folding.
    std::thread::sleep(Duration::from_secs(10));
    let mut ratios = Vec::new();
    let (mut beside, mut empty) = (Vec::new(), Vec::new());
    for _ in 0..setting.pace.rounds {
        empty.push(load::run(&empty_peer, 64, setting.pace.seconds, Work::Cycle).rate());
        progress.inc(1);
        beside.push(load::run(&ours, 64, setting.pace.seconds, Work::Cycle).rate());
        progress.inc(1);
        ratios.push(beside[beside.len() - 1] / empty[empty.len() - 1]);
    }
    load::block_on(rewrite(&redis));
    progress.inc(1);
    drop((ours, redis, empty_peer));
    let (our_cold, our_warm) = starts(|| {
        let began = Instant::now();
        let peer = Leasehold::start_in(&setting.data.join("leasehold"), &setting.binary);
        load::block_on(knows_ours(&peer));
        (peer, began.elapsed().as_secs_f64())
    });
    progress.inc(1);
    let (redis_cold, redis_warm) = starts(|| {
        let began = Instant::now();
        let peer = Redis::start_in(&setting.data.join("redis-always"), Sync::Always);
        load::block_on(knows_redis(&peer));
        (peer, began.elapsed().as_secs_f64())
    });
    progress.finish_and_clear();
    let (beside, empty) = (Spread::of(beside), Spread::of(empty));
    let row = |what: &str, ours: String, redis: String| vec![what.into(), ours, redis];
    let rows = vec![
        row(
            "acquire + release beside them, requests/s",
            format!("{:.0}", beside.median),
            String::new(),
        ),
        row("the same, nothing held", format!("{:.0}", empty.median), String::new()),
        row("memory of a held lock, bytes", our_memory.to_string(), redis_memory.to_string()),
        row(
            "start, files not in the page cache, s",
            format!("{our_cold:.2}"),
            format!("{redis_cold:.2}"),
        ),
        row("start, warm, s", format!("{our_warm:.2}"), format!("{redis_warm:.2}")),
    ];
    report.table(&format!("(d), (f), (g) {n} locks held"), &["", "leasehold", "redis"], rows);
    report.at_least("(d) of the rate with nothing held", 0.90, Spread::of(ratios));
    report.at_most("(f) memory, of redis", 1.5, our_memory as f64 / redis_memory as f64);
    report.at_most("(g) warm start, of redis", 0.5, our_warm / redis_warm);
}

pub(super) fn fill_ours(peer: &Leasehold, n: usize) -> u64 {
    let before = resident_bytes(peer.pid());
    load::block_on(async {
        let tasks: Vec<_> = (0..N_FILLERS)
            .map(|filler| {
                let connecting = peer.connect(filler);
                async move {
                    let mut client = connecting.await;
                    for i in 0..n / N_FILLERS {
                        let path = format!("/v1/locks/held-{filler}-{i}/acquire");
                        let body = format!("{{\"owner_id\":\"holder\",\"ttl_ms\":{TTL_MS}}}");
                        let (status, answer) = client.connection.post(&path, &body).await;
                        assert_eq!(status, 200, "{answer}");
                    }
                }
            })
            .collect();
        all(tasks).await;
    });
    (resident_bytes(peer.pid()) - before) / n as u64
}

fn fill_redis(peer: &Redis, n: usize) -> u64 {
    let before = resident_bytes(peer.pid());
    load::block_on(async {
        let tasks: Vec<_> = (0..N_FILLERS)
            .map(|filler| {
                let connecting = peer.connect(filler);
                async move {
                    let mut client = connecting.await;
                    for i in 0..n / N_FILLERS {
                        assert!(client.try_take(&format!("held-{filler}-{i}"), TTL_MS).await > 0);
                    }
                }
            })
            .collect();
        all(tasks).await;
    });
    (resident_bytes(peer.pid()) - before) / n as u64
}

/// Runs all tasks at the same time, on this thread.
async fn all(tasks: Vec<impl Future<Output = ()>>) {
    let mut tasks: Vec<_> = tasks.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        if tasks.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Compacts the log of Redis, so that Redis starts from its shortest log.
async fn rewrite(peer: &Redis) {
    let mut client = peer.connect(0).await;
    client.command(&["BGREWRITEAOF"]).await;
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let info = format!("{:?}", client.command(&["INFO", "persistence"]).await);
        if info.contains("aof_rewrite_in_progress:0") {
            return;
        }
    }
    panic!("redis does not finish rewriting its log");
}

/// Returns when the server responds and knows a lock from before the start. Both servers listen before they have read
/// all data.
async fn knows_ours(peer: &Leasehold) {
    let mut client = peer.connect(0).await;
    let (status, answer) = client.connection.send("GET", &format!("/v1/locks/{HELD}"), "").await;
    assert!(status == 200 && answer.contains("\"held\":true"), "{answer}");
}

async fn knows_redis(peer: &Redis) {
    let mut client = peer.connect(0).await;
    for _ in 0..60_000 {
        match client.try_command(&["EXISTS", HELD]).await {
            Ok(redis::Value::Int(1)) => return,
            // Redis sends this while it loads its data.
            Err(error) if error.code() == Some("LOADING") => {}
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("redis does not finish loading");
}

/// Returns the seconds of a start that reads its files from the disk, and the median of three starts with cached files.
fn starts<P>(start: impl Fn() -> (P, f64)) -> (f64, f64) {
    let dropped = std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    let (peer, first) = start();
    drop(peer);
    let warm = Spread::of((0..3).map(|_| start().1).collect());
    (if dropped { first } else { f64::NAN }, warm.median)
}
