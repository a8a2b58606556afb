//! Acquires that succeed, and acquires that are rejected.

use std::collections::BTreeSet;

use serde_json::json;

use super::ms;
use crate::flaw::{Flaw, Outcome, demand};
use crate::link::{Fate, Rule};
use crate::world::World;

pub(super) async fn renewed_while_held(world: &World) -> Outcome {
    world.connect("alice").await?;
    let token = world.acquire("alice", "a", json!({"ttl_ms": 1500})).await?;
    demand!(token == 1, "the first token of a lock is 1, not {token}");
    world.stays_held(&["alice:a"], ms(4500)).await?;
    let n_renewals = world.log.of("/renew").len();
    demand!((3..=30).contains(&n_renewals), "{n_renewals} renewals in three times the ttl");
    world.release("alice", "a").await?;
    let history = world.server.history().await?;
    demand!(history.of("released").len() == 1, "one release, not {history:?}");
    Ok(())
}

pub(super) async fn held_is_held(world: &World) -> Outcome {
    world.connect("alice").await?;
    world.connect("bob").await?;
    world.acquire("alice", "x", json!({"ttl_ms": 10_000})).await?;
    let mut n_asked = 1;
    for (fields, name) in [(json!({}), "held"), (json!({"wait_ms": 300}), "wait_timeout")] {
        n_asked += 1;
        let fields = crate::world::with(json!({"ttl_ms": 10_000}), fields);
        refused(world, "bob", "x", &format!("{name}-{n_asked}"), fields, name).await?;
    }
    // Several readers share the lock, but a writer has to wait. A limit of two admits two holders.
    for (lock, kind) in [("s", json!({"shared": true})), ("p", json!({"limit": 2}))] {
        let fields = crate::world::with(json!({"ttl_ms": 10_000}), kind.clone());
        world.acquire("alice", lock, fields.clone()).await?;
        world.acquire("bob", lock, fields).await?;
        n_asked += 2;
    }
    refused(world, "bob", "s", "writer", json!({"ttl_ms": 10_000}), "held").await?;
    refused(world, "bob", "p", "third", json!({"ttl_ms": 10_000, "limit": 2}), "held").await?;
    n_asked += 2;
    let asked = world.log.of("/acquire");
    let ids: BTreeSet<_> = asked.iter().filter_map(|seen| seen.request_id()).collect();
    demand!(ids.len() == n_asked, "{n_asked} acquires need as many request ids, not {}", ids.len());
    let history = world.server.history().await?;
    demand!(history.of("granted").len() == 5, "five grants, not {history:?}");
    Ok(())
}

/// Checks that an acquire is rejected with this error.
async fn refused(
    world: &World,
    client: &str,
    lock: &str,
    lease: &str,
    fields: serde_json::Value,
    name: &str,
) -> Outcome {
    let acquire = json!({"do": "acquire", "client": client, "lease": lease, "lock": lock});
    let refusal = world.driver.refused(crate::world::with(acquire, fields)).await?;
    demand!(refusal.name == name, "{lock} should be refused as {name:?}: {}", refusal.error);
    Ok(())
}

pub(super) async fn several_or_none(world: &World) -> Outcome {
    world.connect("alice").await?;
    let other = world.server.acquire("b", "bob", json!({})).await?;
    let locks = json!([{"lock": "a"}, {"lock": "b"}, {"lock": "c", "shared": true}]);
    let usual = json!({"do": "acquire_all", "client": "alice", "locks": locks, "ttl_ms": 1500});
    let ask = |lease: &str| crate::world::with(usual.clone(), json!({"lease": lease}));
    let refusal = world.driver.refused(ask("none")).await?;
    demand!(refusal.name == "held", "one is held: {}", refusal.error);
    let state = world.server.look("a").await?;
    demand!(state["held"] == false, "some of several were granted: {state}");
    world.server.release(&other).await?;
    let answer = world.driver.ask(ask("all")).await?;
    let tokens = &answer["fencing_tokens"];
    demand!(*tokens == json!([1, 2, 1]), "the tokens of a, b and c are 1, 2, 1, not {tokens}");
    world.stays_held(&["all"], ms(3000)).await?;
    world.driver.ask(json!({"do": "release", "lease": "all"})).await?;
    let history = world.server.history().await?;
    let released = history.of("released").iter().filter(|event| event.owner == "alice").count();
    demand!(released == 3, "all three are released: {history:?}");
    Ok(())
}

pub(super) async fn request_id_reused(world: &World) -> Outcome {
    world.connect("alice").await?;
    world.link().obey([
        Rule::times(2, "/acquire", Fate::CutAfter),
        Rule::times(1, "/acquire", Fate::CutBefore),
        Rule::times(1, "/acquire", Fate::CutAfter),
    ]);
    let token = world.acquire("alice", "a", json!({"ttl_ms": 10_000})).await?;
    let asked = world.log.of("/locks/a/acquire");
    let ids: BTreeSet<_> = asked.iter().map(|seen| seen.request_id()).collect();
    demand!(asked.len() == 5, "it took {} tries instead of 5", asked.len());
    demand!(
        ids.len() == 1 && !ids.contains(&None),
        "every try has the same request_id, not {ids:?}"
    );
    let history = world.server.history().await?;
    demand!(history.of("granted").len() == 1 && token == 1, "one grant, not {history:?}");
    world.release("alice", "a").await?;
    Ok(())
}

pub(super) async fn namespaced(world: &World) -> Outcome {
    let (namespace, lock) = ("Straße 7/a", "Köln/1 & 2?#%.");
    let fields = json!({"urls": [world.link().url()], "namespace": namespace});
    world.connect_with("alice", fields).await?;
    world.acquire("alice", lock, json!({"ttl_ms": 1500})).await?;
    world.stays_held(&[&crate::world::lease_of("alice", lock)], ms(1600)).await?;
    world.release("alice", lock).await?;
    let path = "/v1/namespaces/Stra%C3%9Fe%207%2Fa";
    let history = world.server.history_of(path).await?;
    let kinds: Vec<_> = history.all().iter().map(|event| (&*event.kind, &*event.lock)).collect();
    demand!(kinds == [("granted", lock), ("released", lock)], "not so: {history:?}");
    Ok(())
}

/// Unexpected responses that a gateway might send: a page, nothing, or other JSON.
const FOREIGN: [&str; 5] = ["", "<html>welcome</html>", "null", "[]", "{}"];

pub(super) async fn foreign_is_no_answer(world: &World) -> Outcome {
    world.connect("alice").await?;
    for (n, said) in FOREIGN.into_iter().enumerate() {
        world.link().obey([Rule::always("/", Fate::Foreign(said))]);
        let fields = json!({"ttl_ms": 1500, "lease": format!("foreign {n}")});
        match world.begin_acquire("alice", "a", fields).answer().await? {
            Err(_) => {}
            Ok(answer) => {
                let why = format!("200 and {said:?} was taken for a grant: {answer}");
                return Err(Flaw::Wrong(why));
            }
        }
    }
    world.link().obey([]);
    let ttl = ms(1500);
    world.acquire("alice", "b", json!({"ttl_ms": 1500})).await?;
    world.link().obey([Rule::always("/renew", Fate::Foreign("{}"))]);
    world.lost_in_time(("lease", "alice:b"), &["/locks/b/"], ttl).await.map(drop)
}
