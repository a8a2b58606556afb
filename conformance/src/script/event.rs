//! Events: a watcher receives each one exactly once and in order, even over broken connections and restarts.

use serde_json::json;

use super::{SOON, ms};
use crate::driver::Driver;
use crate::flaw::{Outcome, demand};
use crate::history::History;
use crate::subject::Subject;
use crate::world::World;

pub(super) async fn events_complete(world: &World) -> Outcome {
    world.connect("alice").await?;
    world
        .driver
        .ask(json!({"do": "watch", "client": "alice", "watch": "w", "prefix": "e"}))
        .await?;
    happen(world, "e1").await?;
    world.server.acquire("f", "bob", json!({})).await?;
    told(world, 2).await?;
    world.link().cut();
    happen(world, "e2").await?;
    told(world, 4).await?;
    happen(world, "e3").await?;
    world.server.kill().await;
    world.server.start_again().await?;
    happen(world, "e4").await?;
    told(world, 8).await?;
    are_complete(world, "e").await
}

/// Checks that a watcher received all events of locks with this prefix, once and in order.
pub(super) async fn are_complete(world: &World, prefix: &str) -> Outcome {
    let history = world.server.history().await?.only(prefix);
    are_those(&world.driver, &history)
}

/// Checks that exactly these events were received, without a gap.
pub(crate) fn are_those(driver: &Driver, history: &History) -> Outcome {
    let gaps = driver.told("gap", ("watch", "w"));
    demand!(gaps.is_empty(), "the server keeps these events; there is no gap: {gaps:?}");
    let expected: Vec<_> = history
        .all()
        .iter()
        .map(|event| json!([event.kind, event.lock, event.owner, event.token, event.id]))
        .collect();
    let told = driver.told("happened", ("watch", "w"));
    let fields = ["kind", "lock", "owner", "fencing_token", "id"];
    let shown: Vec<_> =
        told.iter().map(|told| json!(fields.map(|field| &told.event[field]))).collect();
    demand!(shown == expected, "told {shown:?}, but this is what happened: {expected:?}");
    Ok(())
}

/// Causes two events of a lock.
async fn happen(world: &World, lock: &str) -> Outcome {
    let held = world.server.acquire(lock, "bob", json!({})).await?;
    world.server.release(&held).await
}

/// Waits until this many events were received.
pub(crate) async fn told(subject: &Subject, n: usize) -> Outcome {
    let began = std::time::Instant::now();
    while began.elapsed() < SOON {
        if subject.driver.told("happened", ("watch", "w")).len() >= n {
            return Ok(());
        }
        tokio::time::sleep(ms(10)).await;
    }
    let told = subject.driver.told("happened", ("watch", "w"));
    demand!(false, "{} of {n} events were told within {SOON:?}: {told:?}", told.len());
    Ok(())
}
