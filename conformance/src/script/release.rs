//! A lock is released once, and not renewed after that.

use std::collections::BTreeSet;

use serde_json::json;

use super::{SOON, WAIT_MS, ms};
use crate::flaw::{Outcome, broken, demand};
use crate::link::{Fate, Rule};
use crate::world::World;

pub(super) async fn release_is_one(world: &World) -> Outcome {
    world.connect("alice").await?;
    world.acquire("alice", "a", json!({"ttl_ms": 10_000})).await?;
    let (bob, released) =
        tokio::join!(world.server.acquire("a", "bob", json!({"wait_ms": WAIT_MS})), async {
            world.server.wait_for_queue("a", &["bob"], SOON).await?;
            world.link().obey([
                Rule::times(2, "/release", Fate::CutAfter),
                Rule::times(1, "/release", Fate::CutBefore),
                Rule::times(1, "/release", Fate::CutAfter),
            ]);
            world.release("alice", "a").await
        });
    released?;
    let asked = world.log.of("/locks/a/release");
    let ids: BTreeSet<_> = asked.iter().map(|seen| seen.request_id()).collect();
    demand!(asked.len() == 5, "it took {} tries instead of 5", asked.len());
    demand!(
        ids.len() == 1 && !ids.contains(&None),
        "every try has the same request_id, not {ids:?}"
    );
    let history = world.server.history().await?;
    let released: Vec<_> = history.of("released").iter().map(|event| event.token).collect();
    demand!(released == [1], "one release of token 1, not {history:?}");
    let state = world.server.look("a").await?;
    demand!(state["fencing_token"] == bob?.token(), "the next owner lost it: {state}");
    Ok(())
}

pub(super) async fn nothing_after_release(world: &World) -> Outcome {
    world.connect("alice").await?;
    world.link().obey([
        Rule::always("/locks/a/release", Fate::Late(ms(1200))),
        Rule::always("/locks/b/renew", Fate::Held),
    ]);
    world.acquire("alice", "a", json!({"ttl_ms": 1500})).await?;
    world.acquire("alice", "b", json!({"ttl_ms": 4500})).await?;
    // `a` is released right after a renewal. The next renewal would be due while the release is pending.
    world.log.when("/locks/a/renew", SOON, |seen| seen.answered_at.is_some()).await?;
    world.release("alice", "a").await?;
    // `b` is released while a renewal is pending.
    world.log.when_seen("/locks/b/renew", 1, SOON).await?;
    let release = world.driver.begin(json!({"do": "release", "lease": "alice:b"}));
    world.log.when_seen("/locks/b/release", 1, SOON).await?;
    world.link().let_go();
    let answer = release.answer().await?;
    demand!(answer.is_ok(), "the release of b was answered {answer:?}");
    world.link().obey([]);
    tokio::time::sleep(ms(2500)).await;
    for lock in ["a", "b"] {
        not_renewed_after_release(world, lock)?;
    }
    let history = world.server.history().await?;
    demand!(history.of("released").len() == 2, "two releases, not {history:?}");
    Ok(())
}

pub(super) async fn release_gives_up(world: &World) -> Outcome {
    let fields = json!({"urls": [world.link().url()], "timeout_ms": 500});
    world.connect_with("alice", fields).await?;
    world.acquire("alice", "a", json!({"ttl_ms": 1500})).await?;
    world.link().obey([Rule::always("/release", Fate::CutBefore)]);
    let release = world.driver.begin(json!({"do": "release", "lease": "alice:a"}));
    match release.answer_within(ms(WAIT_MS)).await? {
        Ok(_) => demand!(false, "a release that no server has seen was answered ok"),
        Err(no) => demand!(
            no.name == "broken" || no.name == "unreachable",
            "the server could not be reached, and that was told as {}",
            no.error
        ),
    }
    demand!(!world.is_held("alice:a").await?, "`check` says it is held after a release");
    tokio::time::sleep(ms(1000)).await;
    not_renewed_after_release(world, "a")
}

fn not_renewed_after_release(world: &World, lock: &str) -> Outcome {
    let seen = world.log.of(&format!("/locks/{lock}/"));
    let released = seen.iter().position(|seen| seen.path.ends_with("/release"));
    let released = released.ok_or_else(|| broken("no release was seen"))?;
    let n_late = seen[released..].iter().filter(|seen| seen.path.ends_with("/renew")).count();
    demand!(n_late == 0, "{n_late} renewals of {lock} came after its release");
    Ok(())
}
