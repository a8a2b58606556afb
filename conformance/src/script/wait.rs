//! A waiter keeps its place in the queue through broken connections and restarts, and leaves it immediately when it is
//! cancelled.

use std::collections::BTreeSet;

use leasehold_testkit::Method;
use serde_json::json;

use super::{SOON, WAIT_MS};
use crate::driver::Asked;
use crate::flaw::{Flaw, Outcome, broken, demand};
use crate::link::{Fate, Rule};
use crate::seen::Seen;
use crate::server::Held;
use crate::world::World;

/// Makes two clients wait behind a holder.
async fn queue(world: &World) -> Outcome<(Held, Asked, Asked)> {
    let held = world.server.acquire("a", "holder", json!({})).await?;
    let fields = json!({"ttl_ms": 10_000, "wait_ms": WAIT_MS});
    world.connect("alice").await?;
    let alice = world.begin_acquire("alice", "a", fields.clone());
    world.server.wait_for_queue("a", &["alice"], SOON).await?;
    world.connect("bob").await?;
    let bob = world.begin_acquire("bob", "a", fields);
    world.server.wait_for_queue("a", &["alice", "bob"], SOON).await?;
    Ok((held, alice, bob))
}

/// Checks that both get the lock, once and in order.
async fn granted_in_order(world: &World, held: Held, alice: Asked, mut bob: Asked) -> Outcome {
    world.server.release(&held).await?;
    let token = crate::world::granted(alice).await?;
    demand!(token == 2, "alice was next, with token 2, and got {token}");
    demand!(!bob.is_answered(), "bob was answered before alice gave it back");
    world.release("alice", "a").await?;
    let token = crate::world::granted(bob).await?;
    demand!(token == 3, "bob was next, with token 3, and got {token}");
    let history = world.server.history().await?;
    let owners: Vec<_> = history.of("granted").iter().map(|event| event.owner.clone()).collect();
    demand!(owners == ["holder", "alice", "bob"], "granted in the wrong order: {history:?}");
    for owner in ["alice", "bob"] {
        let mut asked = world.log.of("/locks/a/acquire");
        asked.retain(|seen| seen.body["owner_id"] == owner);
        let ids: BTreeSet<_> = asked.iter().map(|seen| seen.request_id()).collect();
        demand!(asked.len() > 1, "{owner} never had to ask again");
        demand!(
            ids.len() == 1 && !ids.contains(&None),
            "every try has the same request_id, not {ids:?}"
        );
    }
    Ok(())
}

pub(super) async fn wait_survives_restart(world: &World) -> Outcome {
    let (held, alice, bob) = queue(world).await?;
    world.server.kill().await;
    world.server.start_again().await?;
    world.server.wait_for_queue("a", &["alice", "bob"], SOON).await?;
    granted_in_order(world, held, alice, bob).await
}

pub(super) async fn wait_survives_cuts(world: &World) -> Outcome {
    let (held, alice, bob) = queue(world).await?;
    for _ in 1..=3 {
        let n_before = world.log.of("/locks/a/acquire").len();
        world.link().cut();
        // Both must repeat their requests first. Before that, the server might not have noticed the broken connections.
        world.log.when_seen("/locks/a/acquire", n_before + 2, SOON).await?;
        world.server.wait_for_queue("a", &["alice", "bob"], SOON).await?;
    }
    granted_in_order(world, held, alice, bob).await
}

pub(super) async fn ended_wait_is_over(world: &World) -> Outcome {
    world.server.acquire("a", "holder", json!({})).await?;
    world.connect("alice").await?;
    let alice = world.begin_acquire("alice", "a", json!({"ttl_ms": 10_000, "wait_ms": WAIT_MS}));
    world.server.wait_for_queue("a", &["alice"], SOON).await?;
    let asked = world.log.of("/locks/a/acquire");
    let request_id = asked.first().and_then(|seen| seen.request_id().map(str::to_owned));
    let body = json!({"owner_id": "alice", "request_id": request_id});
    let cancelled = world.server.ask(Method::POST, "/v1/cancel", body).await?;
    demand!(cancelled.body["cancelled"] == true, "it does not wait: {}", cancelled.text);
    match alice.answer_within(SOON).await? {
        Err(no) if no.name == "wait_timeout" || no.name == "held" => {}
        answer => return Err(Flaw::Wrong(format!("a wait that was ended: {answer:?}"))),
    }
    let history = world.server.history().await?;
    let ended = history.of("wait_ended").len();
    demand!(ended == 1, "one wait, not {ended}: {history:?}");
    world.server.wait_for_queue("a", &[], SOON).await
}

async fn cancel(world: &World, asked: Asked) -> Outcome {
    world.driver.ask(json!({"do": "cancel", "command": asked.id})).await?;
    match asked.answer().await? {
        Err(no) if no.name == "cancelled" => Ok(()),
        answer => Err(Flaw::Wrong(format!("a cancelled acquire: {answer:?}"))),
    }
}

pub(super) async fn cancel_leaves_queue(world: &World) -> Outcome {
    let held = world.server.acquire("a", "holder", json!({})).await?;
    world.connect("alice").await?;
    let alice = world.begin_acquire("alice", "a", json!({"ttl_ms": 10_000, "wait_ms": WAIT_MS}));
    world.server.wait_for_queue("a", &["alice"], SOON).await?;
    cancel(world, alice).await?;
    let is_over = |history: &crate::history::History| !history.of("wait_ended").is_empty();
    let history = world.server.history_when(SOON, is_over).await?;
    demand!(is_over(&history), "{SOON:?} after it was cancelled it still waits: {history:?}");
    world.server.release(&held).await.map_err(broken)?;
    let history = world.server.history().await?;
    demand!(history.of("granted").len() == 1, "granted to a disconnected client: {history:?}");
    Ok(())
}

pub(super) async fn cancel_gives_back(world: &World) -> Outcome {
    world.connect("alice").await?;
    world.link().obey([Rule::times(1, "/locks/a/acquire", Fate::Held)]);
    let alice = world.begin_acquire("alice", "a", json!({"ttl_ms": 60_000, "wait_ms": WAIT_MS}));
    world.log.when("/locks/a/acquire", SOON, Seen::is_served).await?;
    cancel(world, alice).await?;
    let is_over = |history: &crate::history::History| !history.of("released").is_empty();
    let history = world.server.history_when(SOON, is_over).await?;
    demand!(is_over(&history), "{SOON:?} after it was cancelled it is still held: {history:?}");
    world.server.acquire("a", "bob", json!({})).await.map(drop)
}
