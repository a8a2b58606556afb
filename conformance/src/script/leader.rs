//! A cluster with one leader: clients are referred to the leader, and follow a leader change.

use std::collections::BTreeSet;

use serde_json::json;

use super::{SOON, WAIT_MS, event, ms};
use crate::flaw::{Outcome, broken, demand};
use crate::link::{Fate, Link, Rule};
use crate::world::{World, granted, with};

/// How long the cluster has no leader.
const VACANT_MS: u64 = 700;

async fn connect(world: &World, client: &str, fields: serde_json::Value) -> Outcome {
    let urls = world.links.each_ref().map(Link::url);
    world.connect_with(client, with(json!({"urls": urls}), fields)).await
}

pub(super) async fn fail_over_leader(world: &World) -> Outcome {
    let [follower, leader] = &world.links;
    follower.follow(Some(&leader.url()));
    connect(world, "alice", json!({})).await?;
    let watch = json!({"do": "watch", "client": "alice", "watch": "w", "prefix": "x"});
    world.driver.ask(watch).await?;
    let token = world.acquire("alice", "xa", json!({"ttl_ms": 3000})).await?;
    let open = json!({"do": "session_open", "client": "alice", "session": "s", "ttl_ms": 3000});
    world.driver.ask(open).await?;
    world.acquire("alice", "xb", json!({"session": "s"})).await?;
    let held = world.server.acquire("xc", "holder", json!({})).await?;
    connect(world, "bob", json!({})).await?;
    let bob = world.begin_acquire("bob", "xc", json!({"ttl_ms": 10_000, "wait_ms": WAIT_MS}));
    world.server.wait_for_queue("xc", &["bob"], SOON).await?;
    event::told(world, 3).await?;
    world.stays_held(&["alice:xa", "alice:xb"], ms(1500)).await?;
    goes_to_the_leader(world)?;

    leader.refuse();
    follower.follow(None);
    follower.obey([Rule::always("/", Fate::Busy)]);
    tokio::time::sleep(ms(VACANT_MS)).await;
    follower.obey([]);
    world.server.wait_for_queue("xc", &["bob"], SOON).await?;
    world.stays_held(&["alice:xa", "alice:xb"], ms(6000)).await?;
    world.server.release(&held).await?;
    let bobs = granted(bob).await?;
    demand!(bobs == 2, "bob was next, with token 2, and got {bobs}");
    world.release("alice", "xa").await?;
    world.driver.ask(json!({"do": "session_close", "session": "s"})).await?;

    let mut asked = world.log.of("/locks/xc/acquire");
    asked.retain(|seen| seen.body["owner_id"] == "bob");
    let ids: BTreeSet<_> = asked.iter().map(|seen| seen.request_id()).collect();
    demand!(ids.len() == 1 && !ids.contains(&None), "one request_id for all tries, not {ids:?}");
    let is_over = |history: &crate::history::History| history.of("released").len() == 3;
    let history = world.server.history_when(SOON, is_over).await?;
    let released = history.of_lock("released", "xa");
    demand!(
        released.len() == 1 && released[0].token == token,
        "one release of xa with token {token}, not {history:?}"
    );
    event::told(world, 7).await?;
    event::are_complete(world, "x").await
}

/// Checks that each client asks for the leader once, and sends all later requests except events to it.
fn goes_to_the_leader(world: &World) -> Outcome {
    let mut seen = world.log.of("/v1/");
    seen.retain(|seen| !seen.path.contains("/events"));
    let n_refused = seen.iter().filter(|seen| seen.status == Some(421)).count();
    demand!((1..=4).contains(&n_refused), "{n_refused} requests were told who leads");
    let elsewhere: Vec<_> = seen
        .iter()
        .filter(|seen| seen.link == 0 && seen.status != Some(421))
        .map(|seen| format!("{} {}", seen.method, seen.path))
        .collect();
    demand!(elsewhere.is_empty(), "passed on by who does not lead: {elsewhere:?}");
    let is_undirected = seen.iter().any(|seen| !seen.is_direct);
    demand!(!is_undirected, "a request does not say that it wants to know who leads");
    Ok(())
}

pub(super) async fn fail_over_stranger(world: &World) -> Outcome {
    let stranger = Link::open(2, world.server.upstream(), world.log.clone()).await;
    let stranger = stranger.map_err(broken)?;
    for link in &world.links {
        link.follow(Some(&stranger.url()));
    }
    connect(world, "alice", json!({"api_key": "conformance-key-77"})).await?;
    world.acquire("alice", "a", json!({"ttl_ms": 1500})).await?;
    world.stays_held(&["alice:a"], ms(2500)).await?;
    world.release("alice", "a").await?;
    let seen = world.log.of("/");
    let to_stranger: Vec<_> = seen.iter().filter(|seen| seen.link == 2).collect();
    demand!(to_stranger.is_empty(), "sent to an unknown server: {to_stranger:?}");
    demand!(seen.iter().any(|seen| seen.status == Some(421)), "no server was asked for the leader");
    let history = world.server.history().await?;
    demand!(history.of("granted").len() == 1, "one grant, not {history:?}");
    demand!(history.of("released").len() == 1, "one release, not {history:?}");
    Ok(())
}
