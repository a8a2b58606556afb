//! (h) a million leases expire in the same second while (a) runs.

use std::time::{Duration, Instant};

use super::Setting;
use crate::load::{self, Work};
use crate::peer::{Leasehold, Peer};
use crate::report::Report;

const N_FILLERS: usize = 256;
const N_CONNECTIONS: usize = 64;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let peer = Leasehold::start(&setting.data, &setting.binary);
    let n = setting.n_held;
    let progress = setting.progress("(h) expiry", 3);
    // Long enough for any machine to acquire all leases before the first one expires.
    let ttl = Duration::from_secs(15 + n as u64 / 10_000);
    let due = Instant::now() + ttl;
    load::block_on(fill(&peer, n, due));
    progress.inc(1);
    let before = load::run(&peer, N_CONNECTIONS, 5.0, Work::Cycle);
    progress.inc(1);
    std::thread::sleep(
        due.saturating_duration_since(Instant::now()).saturating_sub(Duration::from_secs(1)),
    );
    let during = load::run(&peer, N_CONNECTIONS, 5.0, Work::Cycle);
    progress.finish_and_clear();
    let row = |what: &str, sample: &load::Sample| {
        vec![
            what.into(),
            format!("{:.0}", sample.rate()),
            format!("{:.2}", sample.ms(0.5)),
            format!("{:.2}", sample.ms(0.99)),
            format!("{:.2}", sample.ms(0.999)),
            format!("{:.1}", sample.ms(1.0)),
        ]
    };
    let columns = ["", "requests/s", "cycle p50 ms", "p99", "p99.9", "longest"];
    let title = format!("(h) {n} leases expire in one second");
    report.table(&title, &columns, vec![row("before", &before), row("during", &during)]);
    report.at_most("(h) p99 during it, of p99 before", 3.0, during.ms(0.99) / before.ms(0.99));
}

/// Acquires leases that all expire at the same moment.
async fn fill(peer: &Leasehold, n: usize, due: Instant) {
    let mut tasks = Vec::new();
    for filler in 0..N_FILLERS {
        let mut client = peer.connect(filler).await;
        tasks.push(tokio::task::spawn_local(async move {
            for i in 0..n / N_FILLERS {
                let ttl_ms = due.saturating_duration_since(Instant::now()).as_millis();
                let path = format!("/v1/locks/brief-{filler}-{i}/acquire");
                let body = format!("{{\"owner_id\":\"holder\",\"ttl_ms\":{ttl_ms}}}");
                let (status, answer) = client.connection.post(&path, &body).await;
                assert_eq!(status, 200, "{answer}");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
}
