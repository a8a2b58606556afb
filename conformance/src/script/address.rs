//! Several URLs of one server: if one does not work, the client uses another.

use std::collections::BTreeSet;

use serde_json::json;

use super::ms;
use crate::flaw::{Outcome, demand};
use crate::link::{Fate, Rule};
use crate::seen::Seen;
use crate::subject::token_of;
use crate::world::World;

async fn connect(world: &World) -> Outcome {
    let urls = world.links.each_ref().map(|link| link.url());
    world.connect_with("alice", json!({"urls": urls, "timeout_ms": 500})).await
}

/// Returns the link that was used last, and the other one.
fn used_and_other(world: &World) -> (usize, usize) {
    let used = world.log.of("/").last().map_or(0, |seen| seen.link);
    (used, 1 - used)
}

pub(super) async fn fail_over_refused(world: &World) -> Outcome {
    connect(world).await?;
    world.acquire("alice", "a", json!({"ttl_ms": 2400})).await?;
    let (used, other) = used_and_other(world);
    world.links[used].refuse();
    world.stays_held(&["alice:a"], ms(4800)).await?;
    demand!(used_and_other(world).0 == other, "nothing went over the other URL");
    // A release whose response is lost is repeated over a working connection.
    world.links[other].obey([Rule::times(2, "/release", Fate::CutAfter)]);
    world.release("alice", "a").await?;
    let history = world.server.history().await?;
    demand!(history.of("released").len() == 1, "one release, not {history:?}");
    Ok(())
}

pub(super) async fn fail_over_stalled(world: &World) -> Outcome {
    connect(world).await?;
    let token = world.acquire("alice", "a", json!({"ttl_ms": 3000})).await?;
    let (used, other) = used_and_other(world);
    world.links[used].obey([Rule::always("/", Fate::Swallowed)]);
    world.stays_held(&["alice:a"], ms(6000)).await?;
    demand!(used_and_other(world).0 == other, "nothing went over the other URL");
    // Reverses the roles of the links, now for an acquire and a release.
    world.links[used].obey([]);
    world.links[other].obey([Rule::always("/", Fate::Swallowed)]);
    world.acquire("alice", "b", json!({"ttl_ms": 10_000})).await?;
    world.release("alice", "a").await?;
    let history = world.server.history().await?;
    let released: Vec<_> = history.of("released").iter().map(|event| event.token).collect();
    demand!(released == [token], "one release of token {token}, not {history:?}");
    demand!(history.of_lock("granted", "b").len() == 1, "one grant of b, not {history:?}");
    Ok(())
}

/// Tests a client with default timeouts: the limit for one response must be far enough below the limit for all attempts
/// to allow a second attempt.
pub(super) async fn fail_over_silent(world: &World) -> Outcome {
    let urls = world.links.each_ref().map(|link| link.url());
    let connect = json!({"do": "connect", "client": "alice", "owner": "alice", "urls": urls});
    world.driver.ask(connect).await?;
    world.links[0].obey([Rule::always("/", Fate::Swallowed)]);
    let asked = world.begin_acquire("alice", "a", json!({"ttl_ms": 10_000}));
    let token = token_of(asked.answer_within(ms(10_000)).await?)?;
    let seen = world.log.of("/locks/a/acquire");
    let ids: BTreeSet<_> = seen.iter().map(Seen::request_id).collect();
    demand!(ids.len() == 1, "one request id for both URLs, not {ids:?}");
    let links: Vec<_> = seen.iter().map(|seen| seen.link).collect();
    demand!(links == [0, 1], "the first URL and then the second, not {links:?}");
    world.release("alice", "a").await?;
    let history = world.server.history().await?;
    let released: Vec<_> = history.of("released").iter().map(|event| event.token).collect();
    demand!(released == [token], "one release of token {token}, not {history:?}");
    Ok(())
}
