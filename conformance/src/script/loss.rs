//! A client reports a loss before the lease can end, and a loss is final.

use serde_json::json;

use super::{SOON, WAIT_MS, ms};
use crate::driver::Told;
use crate::flaw::{Flaw, Outcome, demand};
use crate::link::{Fate, Rule};
use crate::world::World;

const TTL_MS: u64 = 2400;

/// Checks that the server saw the lease expire, and not before its loss was reported.
async fn expired_after(world: &World, lock: &str, told: &Told) -> Outcome {
    let history = world
        .server
        .history_when(SOON, |history| !history.of_lock("expired", lock).is_empty())
        .await?;
    let expired = history.of_lock("expired", lock);
    let at_ms = expired.first().map(|event| event.at_ms);
    demand!(at_ms.is_some(), "it was told lost, but is renewed: {history:?}");
    demand!(at_ms >= Some(told.at_ms), "the server saw it expire before the loss was told");
    Ok(())
}

pub(super) async fn loss_before_end(world: &World) -> Outcome {
    world.connect("alice").await?;
    world.acquire("alice", "a", json!({"ttl_ms": TTL_MS, "margin_ms": 500})).await?;
    world.swallow();
    let told = world.lost_in_time(("lease", "alice:a"), &["/locks/a/"], ms(TTL_MS)).await?;
    demand!(!world.is_held("alice:a").await?, "`check` says it is held after `lost`");
    expired_after(world, "a", &told).await
}

pub(super) async fn loss_counts_from_send(world: &World) -> Outcome {
    world.connect("alice").await?;
    // Only the response is late: the server received the request immediately, and counts from that.
    world.link().obey([
        Rule::times(1, "/locks/a/acquire", Fate::Late(ms(TTL_MS / 3))),
        Rule::always("/locks/a/renew", Fate::Swallowed),
        Rule::times(1, "/locks/b/renew", Fate::Late(ms(350))),
        Rule::always("/locks/b/renew", Fate::Swallowed),
    ]);
    let a = world.begin_acquire("alice", "a", json!({"ttl_ms": TTL_MS, "margin_ms": 500}));
    let b = world.begin_acquire("alice", "b", json!({"ttl_ms": TTL_MS, "margin_ms": 200}));
    for asked in [a, b] {
        crate::world::granted(asked).await?;
    }
    for lock in ["a", "b"] {
        let (lease, path) = (format!("alice:{lock}"), format!("/locks/{lock}/"));
        let told = world.lost_in_time(("lease", &lease), &[&path], ms(TTL_MS)).await?;
        expired_after(world, lock, &told).await?;
    }
    Ok(())
}

pub(super) async fn loss_after_wait(world: &World) -> Outcome {
    world.connect("alice").await?;
    let held = world.server.acquire("a", "bob", json!({})).await?;
    let fields = json!({"ttl_ms": 1500, "wait_ms": WAIT_MS, "margin_ms": 300});
    let asked = world.begin_acquire("alice", "a", fields);
    world.server.wait_for_queue("a", &["alice"], SOON).await?;
    // Waits longer than the TTL. A client that counts the TTL from its request has lost the lease before it gets it.
    tokio::time::sleep(ms(2000)).await;
    world.server.release(&held).await?;
    crate::world::granted(asked).await?;
    world.stays_held(&["alice:a"], ms(2000)).await?;
    world.swallow();
    let told = world.lost_in_time(("lease", "alice:a"), &["/locks/a/renew"], ms(1500)).await?;
    expired_after(world, "a", &told).await
}

pub(super) async fn loss_when_server_stops(world: &World) -> Outcome {
    world.connect("alice").await?;
    world.acquire("alice", "a", json!({"ttl_ms": TTL_MS, "margin_ms": 500})).await?;
    world.server.stop();
    let told = world.lost_in_time(("lease", "alice:a"), &["/locks/a/"], ms(TTL_MS)).await;
    world.server.go_on();
    // The requests sent to the stopped server arrive only now, when the lease has ended.
    tokio::time::sleep(ms(300)).await;
    demand!(!world.is_held("alice:a").await?, "a loss is final, also if the server is back");
    expired_after(world, "a", &told?).await
}

pub(super) async fn loss_is_final(world: &World) -> Outcome {
    let ttl = ms(3000);
    world.connect("alice").await?;
    // With this margin, the loss is due while the first renewal is pending.
    world.link().obey([Rule::always("/renew", Fate::Held)]);
    world.acquire("alice", "a", json!({"ttl_ms": 3000, "margin_ms": 1500})).await?;
    let told = world.driver.lost(("lease", "alice:a"), ttl).await?;
    let renewed = world.log.of("/renew").iter().any(|seen| seen.is_served());
    demand!(renewed, "no renewal had reached the server when the loss was told");
    world.link().let_go();
    world.link().obey([]);
    tokio::time::sleep(ms(200)).await;
    demand!(!world.is_held("alice:a").await?, "a late answer brought back what was lost");
    match world.write("alice:a", "late", true).answer().await? {
        Err(no) if no.name == "lost" => {}
        answer => return Err(Flaw::Wrong(format!("a checked write of a lost lease: {answer:?}"))),
    }
    demand!(world.resource.writes().is_empty(), "it was written all the same");
    tokio::time::sleep(ttl).await;
    let late = world.log.of("/renew").iter().filter(|seen| seen.at > told.at + ms(100)).count();
    demand!(late == 0, "{late} renewals after the loss was told");
    demand!(!world.is_held("alice:a").await?, "a loss is final");
    let n_losses = world.driver.losses(("lease", "alice:a")).len();
    demand!(n_losses == 1, "the loss was told {n_losses} times");
    Ok(())
}

pub(super) async fn revoked_is_told(world: &World) -> Outcome {
    world.connect("alice").await?;
    world.acquire("alice", "a", json!({"ttl_ms": 1500})).await?;
    let revoke = json!({"reason": "conformance"});
    let method = leasehold_testkit::Method::POST;
    world.server.ask(method, "/v1/locks/a/revoke", revoke).await?;
    let other = world.server.acquire("a", "bob", json!({})).await?;
    let told = world.driver.lost(("lease", "alice:a"), ms(1500)).await?;
    let reason = &told.event["reason"];
    demand!(reason == "ended", "the server said that it is over, and it was told as {reason}");
    demand!(!world.is_held("alice:a").await?, "`check` says it is held after `lost`");
    // Whatever the response to this release is, the other owner must keep its lease.
    let release = world.driver.begin(json!({"do": "release", "lease": "alice:a"}));
    let _ = release.answer().await?;
    let state = world.server.look("a").await?;
    demand!(state["fencing_token"] == other.token(), "the next owner lost it too: {state}");
    Ok(())
}

pub(super) async fn server_killed_lease_kept(world: &World) -> Outcome {
    world.connect("alice").await?;
    // Most of the TTL is reserved for a slow start on a busy machine.
    let token = world.acquire("alice", "a", json!({"ttl_ms": 9000})).await?;
    world.server.kill().await;
    world.log.when_seen("/renew", 1, ms(6000)).await?;
    world.server.start_again().await?;
    world.log.when("/renew", ms(8000), |seen| seen.is_served()).await?;
    world.stays_held(&["alice:a"], ms(500)).await?;
    let state = world.server.look("a").await?;
    demand!(state["fencing_token"] == token, "another token than {token}: {state}");
    Ok(())
}
