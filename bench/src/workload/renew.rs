//! (c) renewals at 64 connections with 10,000 leases held, and one session that keeps as many alive.

use std::time::{Duration, Instant};

use super::Setting;
use crate::contest::Spread;
use crate::load::{self, Sample};
use crate::peer::{Client, Leasehold, Peer, Redis, Sync};
use crate::report::Report;

const N_CONNECTIONS: usize = 64;
const N_LEASES: usize = 10_000;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let ours = Leasehold::start(&setting.data, &setting.binary);
    let redis = Redis::start(&setting.data, Sync::Always);
    let progress = setting.progress("(c) renew", 3 * setting.pace.rounds);
    let (mut our_rates, mut redis_rates, mut session_rates) = (Vec::new(), Vec::new(), Vec::new());
    let seconds = setting.pace.seconds;
    for round in 0..setting.pace.rounds {
        our_rates.push(load::block_on(renew_ours(&ours, round, seconds)).rate());
        progress.inc(1);
        redis_rates.push(load::block_on(renew_redis(&redis, round, seconds)).rate());
        progress.inc(1);
        session_rates.push(load::block_on(keep_session(&ours, round, seconds)));
        progress.inc(1);
    }
    progress.finish_and_clear();
    let ratio = our_rates.iter().zip(&redis_rates).map(|(ours, theirs)| ours / theirs).collect();
    let ratio = Spread::of(ratio);
    let cell = |rates: Vec<f64>| {
        let Spread { median, min, max } = Spread::of(rates);
        format!("{median:.0} ({min:.0}..{max:.0})")
    };
    let session = cell(session_rates);
    let rows = vec![
        vec!["leasehold".into(), cell(our_rates), "1".into()],
        vec![
            redis.name().into(),
            cell(redis_rates),
            format!("{:.2} ({:.2}..{:.2})", ratio.median, ratio.min, ratio.max),
        ],
        vec![format!("leasehold, one session of {N_LEASES} leases"), session, String::new()],
    ];
    let title = format!("(c) renewals, {N_CONNECTIONS} connections, {N_LEASES} leases held");
    let columns = ["peer", "renewals or keep-alives/s", "leasehold is so many times that"];
    report.table(&title, &columns, rows);
}

/// Measures renewals: each connection acquires its share of the leases, and then renews them one after the other.
async fn renew_ours(peer: &Leasehold, round: usize, seconds: f64) -> Sample {
    let mut tasks = Vec::new();
    for n in 0..N_CONNECTIONS {
        let mut client = peer.connect(n).await;
        let mut leases = Vec::new();
        for i in 0..N_LEASES / N_CONNECTIONS {
            let key = format!("renew-{round}-{n}-{i}");
            client.acquire(&key).await;
            leases.push((key, client.proof.clone()));
        }
        tasks.push((client, leases));
    }
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(seconds);
    let tasks = tasks.into_iter().map(|(mut client, leases)| {
        tokio::task::spawn_local(async move {
            let mut sample = Sample::new();
            for (key, proof) in leases.iter().cycle() {
                let began = Instant::now();
                if began >= until {
                    break;
                }
                client.renew(key, proof).await;
                sample.count(began, 1);
            }
            sample
        })
    });
    gather(tasks.collect(), began).await
}

async fn renew_redis(peer: &Redis, round: usize, seconds: f64) -> Sample {
    let mut tasks = Vec::new();
    for n in 0..N_CONNECTIONS {
        let mut client = peer.connect(n).await;
        let mut keys = Vec::new();
        for i in 0..N_LEASES / N_CONNECTIONS {
            let key = format!("renew-{round}-{n}-{i}");
            client.acquire(&key).await;
            keys.push(key);
        }
        tasks.push((client, keys));
    }
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(seconds);
    let tasks = tasks.into_iter().map(|(mut client, keys)| {
        tokio::task::spawn_local(async move {
            let mut sample = Sample::new();
            for key in keys.iter().cycle() {
                let began = Instant::now();
                if began >= until {
                    break;
                }
                client.renew(key).await;
                sample.count(began, 1);
            }
            sample
        })
    });
    gather(tasks.collect(), began).await
}

async fn gather(tasks: Vec<tokio::task::JoinHandle<Sample>>, began: Instant) -> Sample {
    let mut all = Sample::new();
    for task in tasks {
        all.add(&task.await.expect("no panic"));
    }
    all.seconds = began.elapsed().as_secs_f64();
    all
}

/// Returns the keep-alives per second of one session with all those leases, on one connection.
async fn keep_session(peer: &Leasehold, round: usize, seconds: f64) -> f64 {
    let mut client = peer.connect(0).await;
    let body = "{\"owner_id\":\"s\",\"ttl_ms\":60000}";
    let (status, answer) = client.connection.post("/v1/sessions", body).await;
    assert_eq!(status, 201, "{answer}");
    let session = answer.split("\"session_id\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let session = session.expect("a session").to_owned();
    for i in 0..N_LEASES {
        let path = format!("/v1/locks/session-{round}-{i}/acquire");
        let body = format!("{{\"owner_id\":\"s\",\"session_id\":\"{session}\"}}");
        let (status, answer) = client.connection.post(&path, &body).await;
        assert_eq!(status, 200, "{answer}");
    }
    let path = format!("/v1/sessions/{session}/keepalive");
    let (began, mut n) = (Instant::now(), 0);
    while began.elapsed().as_secs_f64() < seconds {
        assert_eq!(client.connection.post(&path, "").await.0, 200);
        n += 1;
    }
    let rate = f64::from(n) / began.elapsed().as_secs_f64();
    client.connection.send("DELETE", &format!("/v1/sessions/{session}"), "").await;
    rate
}
