//! (e) a thousand polls of waiting claims per second, while (a) runs.

use std::time::{Duration, Instant};

use super::Setting;
use crate::contest::Spread;
use crate::load::{self, Sample, Work};
use crate::peer::{Connection, Leasehold, Peer};
use crate::report::Report;

const N_WAITING: usize = 100;
const PERIOD: Duration = Duration::from_millis(1);

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let peer = Leasehold::start(&setting.data, &setting.binary);
    let claims = load::block_on(queue_up(&peer));
    let progress = setting.progress("(e) polling", 2 * setting.pace.rounds);
    let (mut alone, mut beside, mut polls) = (Vec::new(), Vec::new(), Sample::new());
    for _ in 0..setting.pace.rounds {
        alone.push(load::run(&peer, 64, setting.pace.seconds, Work::Cycle).rate());
        progress.inc(1);
        let (sample, polled) = load::block_on(both(&peer, &claims, setting.pace.seconds));
        beside.push(sample.rate());
        polls.add(&polled);
        polls.seconds += polled.seconds;
        progress.inc(1);
    }
    progress.finish_and_clear();
    let ratio =
        Spread::of(beside.iter().zip(&alone).map(|(beside, alone)| beside / alone).collect());
    let rows = vec![
        vec!["(a) alone, requests/s".into(), format!("{:.0}", Spread::of(alone).median)],
        vec![
            "(a) beside the polling, requests/s".into(),
            format!("{:.0}", Spread::of(beside).median),
        ],
        vec!["ratio".into(), format!("{:.2} ({:.2}..{:.2})", ratio.median, ratio.min, ratio.max)],
        vec!["PATCH waiting -> active, requests/s".into(), format!("{:.0}", polls.rate())],
        vec!["its p50 / p99, ms".into(), format!("{:.2} / {:.2}", polls.ms(0.5), polls.ms(0.99))],
    ];
    report.table("(e) claims polling at 1,000/s beside (a) at 64 connections", &["", ""], rows);
}

/// Creates one claim that holds the resource for a long time, and returns the claims that wait behind it.
async fn queue_up(peer: &Leasehold) -> Vec<String> {
    let mut client = peer.connect(0).await;
    let mut claims = Vec::new();
    for _ in 0..=N_WAITING {
        let body = "{\"resource\":\"polled\",\"timeout\":86400}";
        let (status, answer) = client.connection.post("/v1/claims/", body).await;
        assert!(status == 201 || status == 202, "{answer}");
        let at = answer.find("/v1/claims/").expect("a url");
        claims.push(answer[at..].split('"').next().expect("a url").to_owned());
    }
    claims.split_off(1)
}

async fn both(peer: &Leasehold, claims: &[String], seconds: f64) -> (Sample, Sample) {
    let mut clients = Vec::new();
    for n in 0..64 {
        clients.push(peer.connect(n).await);
    }
    let mut pollers = Vec::new();
    for _ in 0..4 {
        pollers.push(Connection::open(peer.process.address).await);
    }
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(seconds);
    let n_pollers = pollers.len() as u32;
    let polling: Vec<_> = pollers
        .into_iter()
        .map(|connection| {
            tokio::task::spawn_local(poll(connection, claims.to_vec(), until, PERIOD * n_pollers))
        })
        .collect();
    let working: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(n, client)| tokio::task::spawn_local(load::keep_at(client, n, until, Work::Cycle)))
        .collect();
    let (mut work, mut polls) = (Sample::new(), Sample::new());
    for task in working {
        work.add(&task.await.expect("no panic"));
    }
    for task in polling {
        polls.add(&task.await.expect("no panic"));
    }
    work.seconds = began.elapsed().as_secs_f64();
    polls.seconds = work.seconds;
    (work, polls)
}

async fn poll(
    mut connection: Connection,
    claims: Vec<String>,
    until: Instant,
    period: Duration,
) -> Sample {
    let mut sample = Sample::new();
    let mut next = Instant::now();
    for claim in claims.iter().cycle() {
        tokio::time::sleep_until(next.into()).await;
        if Instant::now() >= until {
            break;
        }
        let (status, answer) = connection.send("PATCH", claim, "{\"status\":\"active\"}").await;
        assert_eq!(status, 409, "{answer}");
        // Counts from the time at which the poll was due, so that a poll that had to wait for another one counts as
        // late.
        sample.count(next, 1);
        next += period;
    }
    sample
}
