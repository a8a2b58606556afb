//! Tests that a tenant cannot find out whether another tenant exists.
//!
//! A random story is played on two servers. On one server both tenants send requests, on the other only `blue` does.
//! `blue` also sends requests about `red`'s locks. `blue` must get the same responses from both servers, except for
//! numbers that count everything on the server.

mod call;
mod step;
mod world;

use std::collections::BTreeSet;

use leasehold_testkit::Value;

use crate::auth::Scene;
use step::{Chance, N_KINDS, Step};
use world::World;

/// Number of stories per run; `SECLUDED_SEEDS` overrides it.
const N_SEEDS: u64 = 36;
const N_STEPS: usize = 120;

/// Public calls, which reveal nothing about tenants: health checks and the contract.
const PUBLIC: [&str; 9] = [
    "/healthz",
    "/livez",
    "/readyz",
    "/leaderz",
    "/health",
    "/openapi.json",
    "/docs",
    "/docs/docs.css",
    "/docs/docs.js",
];

/// Returns the calls of the contract that none of the sent request lines covers.
async fn missing(scene: &Scene, sent: &BTreeSet<String>) -> Vec<String> {
    let contract = scene.send("admin", "GET /openapi.json", Value::Null).await.body;
    let mut missing = Vec::new();
    for (template, operations) in contract["paths"].as_object().expect("paths") {
        let methods = operations.as_object().expect("operations").keys();
        for method in methods.filter(|method| *method != "parameters") {
            let is_it = |line: &String| {
                let (own, target) = line.split_once(' ').expect("a method");
                let path = target.split('?').next().expect("a path");
                own.eq_ignore_ascii_case(method) && is_of(path, template)
            };
            if !PUBLIC.contains(&template.as_str()) && !sent.iter().any(is_it) {
                missing.push(format!("{method} {template}"));
            }
        }
    }
    missing
}

/// Returns whether a path matches a template. `{path}` can contain slashes.
fn is_of(path: &str, template: &str) -> bool {
    if let Some(before) = template.strip_suffix("{path}") {
        return path.strip_prefix(before).is_some_and(|rest| !rest.is_empty());
    }
    let (path, template): (Vec<_>, Vec<_>) =
        (path.split('/').collect(), template.split('/').collect());
    let is_same =
        |(own, known): (&&str, &&str)| own == known || known.starts_with('{') && !own.is_empty();
    path.len() == template.len() && path.iter().zip(&template).all(is_same)
}

async fn tell(seed: u64, sent: &mut BTreeSet<String>) -> Vec<String> {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let steps: Vec<_> = (0..N_STEPS).map(|_| Step::draw(&mut chance)).collect();
    let (mut both, mut alone) = (World::new().await, World::new().await);
    for (n, step) in steps.iter().enumerate() {
        // Deadlines at the same instant can be reported in any order, so time advances by 1 ms per step.
        [&both, &alone].iter().for_each(|world| world.scene.local.advance_ms(1));
        let is_time = step.what >= N_KINDS - 1;
        if step.who == "red" && !is_time {
            both.take(step).await;
            continue;
        }
        // What `blue` found out about `red` exists on one server only. On the other server, `blue` uses ids that never
        // existed.
        if step.whose == "red" && !is_time {
            let Some(answer) = both.take(step).await else { continue };
            let unknown = alone.stand_in(step, &both.red).await;
            let (answer, unknown) = (both.shown(&answer), alone.shown(&unknown));
            assert_eq!(answer, unknown, "seed {seed}, step {n}: {step:?}");
            continue;
        }
        let (with, without) = (both.take(step).await, alone.take(step).await);
        let with = with.map(|answer| both.shown(&answer));
        let without = without.map(|answer| alone.shown(&answer));
        assert_eq!(with, without, "seed {seed}, step {n}: {step:?}");
    }
    sent.append(&mut both.sent);
    let missing = missing(&both.scene, sent).await;
    both.scene.stop().await;
    alone.scene.stop().await;
    missing
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_client_can_detect_the_other() {
    let n_seeds = std::env::var("SECLUDED_SEEDS").ok().and_then(|n| n.parse().ok());
    let (mut sent, mut missing) = Default::default();
    for seed in 1..=n_seeds.unwrap_or(N_SEEDS) {
        missing = tell(seed, &mut sent).await;
    }
    assert!(missing.is_empty(), "calls that no story has: {missing:?}");
}
