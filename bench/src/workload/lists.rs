//! (m) lists, searches and counts with a million held locks, and acquires beside an open console.

use std::time::{Duration, Instant};

use super::Setting;
use super::million::fill_ours;
use crate::contest::Spread;
use crate::load::{self, Sample, Work};
use crate::machine::resident_bytes;
use crate::peer::{Connection, Leasehold, Peer};
use crate::report::Report;

/// How often each request is sent.
const N_TIMES: usize = 20;
/// How often an open console asks for its page again while locks change.
const RELOAD_EVERY: Duration = Duration::from_millis(500);
/// Requests that 64 connections send at this interval leave the machine some time.
const WORK: Work = Work::Paced { every: Duration::from_millis(20) };

/// The requests, and what they are.
const REQUESTS: [(&str, &str); 12] = [
    ("console: first page, with all counts", "/console"),
    ("console: page by the end of the lease", "/console?sort=ends"),
    ("console: search for one lock", "/console?q=held-7-123"),
    ("console: search for an owner of all locks", "/console?q=holder"),
    ("console: search for nothing there", "/console?q=no-such-lock"),
    ("console: waited for", "/console?state=waiting"),
    ("console: of another protocol", "/console?protocol=redis"),
    ("API: first page", "/v1/locks?limit=25"),
    ("API: names with a prefix", "/v1/locks?limit=25&prefix=held-77-"),
    ("API: of an owner of all locks", "/v1/locks?limit=25&owner=holder"),
    ("API: of an owner of none", "/v1/locks?limit=25&owner=absent"),
    ("API: waited for", "/v1/locks?limit=25&state=waiting"),
];

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let n = setting.n_held;
    let progress = setting.progress("(m) lists", 3 + 2 * setting.pace.rounds);
    let peer = Leasehold::start(&setting.data, &setting.binary);
    fill_ours(&peer, n);
    // Waits until everything is folded.
    std::thread::sleep(Duration::from_secs(10));
    progress.inc(1);
    let before = resident_bytes(peer.pid());
    let first = load::block_on(async {
        let mut connection = Connection::open(peer.process.address).await;
        let mut first = Vec::new();
        for path in ["/console", "/v1/locks?limit=25"] {
            let began = Instant::now();
            look(&mut connection, path).await;
            first.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        first
    });
    let per_lock = resident_bytes(peer.pid()).saturating_sub(before) / n as u64;
    progress.inc(1);
    let (mut rows, mut slowest) = (Vec::new(), 0.0_f64);
    for (what, path) in REQUESTS {
        let sample = load::block_on(looks(&peer, path));
        slowest = slowest.max(sample.ms(1.0));
        let times = format!("{:.1} / {:.1}", sample.ms(0.5), sample.ms(1.0));
        rows.push(vec![what.to_owned(), times]);
    }
    rows.push(vec!["console: the first page after the start".into(), format!("{:.0}", first[0])]);
    rows.push(vec!["API: the first list after the start".into(), format!("{:.0}", first[1])]);
    rows.push(vec!["memory for lists, bytes per lock".into(), per_lock.to_string()]);
    progress.inc(1);
    let (mut alone, mut beside, mut ratios) = (Sample::new(), Sample::new(), Vec::new());
    for _ in 0..setting.pace.rounds {
        let without = load::run(&peer, 64, setting.pace.seconds, WORK);
        progress.inc(1);
        let with = load::block_on(beside_console(&peer, setting.pace.seconds));
        progress.inc(1);
        ratios.push(with.ms(0.99) / without.ms(0.99));
        alone.add(&without);
        beside.add(&with);
    }
    progress.finish_and_clear();
    let times = |sample: &Sample| format!("{:.2} / {:.2}", sample.ms(0.5), sample.ms(0.99));
    rows.push(vec!["acquire and release, p50 / p99".into(), times(&alone)]);
    rows.push(vec!["the same beside an open console".into(), times(&beside)]);
    let title = format!("(m) lists with {n} locks held, ms: median / longest");
    report.table(&title, &["", ""], rows);
    report.at_most("(m) longest list, search or count, ms", 50.0, slowest);
    report.ratio_at_most("(m) p99 beside an open console", 1.10, Spread::of(ratios));
}

async fn look(connection: &mut Connection, path: &str) {
    let (status, answer) = connection.send("GET", path, "").await;
    assert_eq!(status, 200, "{path}: {answer}");
}

/// Sends the same request again and again.
async fn looks(peer: &Leasehold, path: &str) -> Sample {
    let mut connection = Connection::open(peer.process.address).await;
    let mut sample = Sample::new();
    for _ in 0..N_TIMES {
        let began = Instant::now();
        look(&mut connection, path).await;
        sample.count(began, 1);
    }
    sample
}

/// Acquires and releases while a console is open, which asks for its first page again whenever something has changed.
async fn beside_console(peer: &Leasehold, seconds: f64) -> Sample {
    let mut clients = Vec::new();
    for n in 0..64 {
        clients.push(peer.connect(n).await);
    }
    let mut connection = Connection::open(peer.process.address).await;
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(seconds);
    let viewing = tokio::task::spawn_local(async move {
        let mut next = Instant::now();
        while next < until {
            tokio::time::sleep_until(next.into()).await;
            look(&mut connection, "/console").await;
            next += RELOAD_EVERY;
        }
    });
    let clients = clients.into_iter().enumerate();
    let working: Vec<_> = clients
        .map(|(n, client)| tokio::task::spawn_local(load::keep_at(client, n, until, WORK)))
        .collect();
    let mut all = Sample::new();
    for task in working {
        all.add(&task.await.expect("no panic"));
    }
    viewing.await.expect("no panic");
    all.seconds = began.elapsed().as_secs_f64();
    all
}
