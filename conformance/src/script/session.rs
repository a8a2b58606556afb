//! Sessions: one keep-alive for any number of locks.

use serde_json::json;

use super::{SOON, ms};
use crate::flaw::{Outcome, demand};
use crate::history::History;
use crate::world::World;

const N_LOCKS: usize = 40;

async fn open(world: &World, ttl_ms: u64, margin_ms: u64, n_locks: usize) -> Outcome<Vec<String>> {
    world.connect("alice").await?;
    let times = json!({"ttl_ms": ttl_ms, "margin_ms": margin_ms});
    let open = json!({"do": "session_open", "client": "alice", "session": "s"});
    world.driver.ask(crate::world::with(open, times)).await?;
    let locks: Vec<_> = (0..n_locks).map(|n| format!("shard-{n}")).collect();
    let asked: Vec<_> = locks
        .iter()
        .map(|lock| world.begin_acquire("alice", lock, json!({"session": "s"})))
        .collect();
    for asked in asked {
        crate::world::granted(asked).await?;
    }
    Ok(locks.iter().map(|lock| format!("alice:{lock}")).collect())
}

pub(super) async fn session_many_locks(world: &World) -> Outcome {
    let leases = open(world, 3000, 300, N_LOCKS).await?;
    let leases: Vec<_> = leases.iter().map(String::as_str).collect();
    world.stays_held(&leases, ms(6000)).await?;
    let n_renewals = world.log.of("/renew").len();
    demand!(n_renewals == 0, "{n_renewals} locks of a session were renewed by themselves");
    let n_kept = world.log.of("/keepalive").len();
    demand!((3..=20).contains(&n_kept), "{n_kept} keep-alives in twice the ttl");
    world.driver.ask(json!({"do": "session_close", "session": "s"})).await?;
    for lease in &leases {
        demand!(!world.is_held(lease).await?, "{lease} is held after its session was closed");
    }
    // The server releases the locks in slices, the first of them before its response.
    let are_released = |history: &History| history.of("released").len() == N_LOCKS;
    let history = world.server.history_when(SOON, are_released).await?;
    let n_released = history.of("released").len();
    demand!(n_released == N_LOCKS, "{n_released} of {N_LOCKS} locks were released");
    let n_before = world.log.of("/keepalive").len();
    tokio::time::sleep(ms(1500)).await;
    let n_after = world.log.of("/keepalive").len();
    demand!(n_after == n_before, "kept alive after it was closed");
    let refused = json!({"do": "acquire", "client": "alice", "lease": "late", "lock": "late", "session": "s"});
    let refusal = world.driver.refused(refused).await?;
    let is_known = ["session_over", "invalid", "lost"].contains(&&*refusal.name);
    demand!(is_known, "a lock of a closed session: {}", refusal.error);
    Ok(())
}

pub(super) async fn session_loss(world: &World) -> Outcome {
    let leases = open(world, 2400, 500, 5).await?;
    world.swallow();
    let kept_by = ["/v1/sessions"];
    world.lost_in_time(("session", "s"), &kept_by, ms(2400)).await?;
    for lease in &leases {
        world.lost_in_time(("lease", lease), &kept_by, ms(2400)).await?;
        demand!(!world.is_held(lease).await?, "{lease} is held although its session is lost");
    }
    let is_over = |history: &History| history.of("expired").len() == 5;
    let history = world.server.history_when(SOON, is_over).await?;
    demand!(is_over(&history), "the server keeps what was told lost: {history:?}");
    Ok(())
}
