//! Checks continuously whether this follower can reach the leader, and records the result for a report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_engine::{EngineHandle, Whereabouts};
use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};

use super::Peers;
use super::uplink::Uplink;
use leasehold_store::{Health, Obstacle, Pulse};

/// How often the follower tries to reach the leader.
const TRY_EVERY: Duration = Duration::from_secs(1);
/// Time before the first log line. A leader that is busy or about to be replaced causes none.
const SAID_AFTER: Duration = Duration::from_secs(3);

/// Records in the health of the store whether the leader can be reached, until the engine ends.
pub(crate) fn keep_trying(
    peers: Arc<Peers>,
    engine: &EngineHandle,
) -> impl Future<Output = ()> + Send + use<> {
    // This task has no handle of the engine, so that the last handle can be dropped.
    keep(Uplink::new(peers), engine.whereabouts(), engine.health().clone())
}

async fn keep(uplink: Uplink, whereabouts: Receiver<Whereabouts>, health: Arc<Health>) {
    let mut ticks = interval(TRY_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = None;
    let pulse = health.pulse();
    while whereabouts.has_changed().is_ok() {
        ticks.tick().await;
        let Whereabouts { is_here, leader } = whereabouts.borrow().clone();
        let leader = leader.filter(|_| !is_here);
        if let Some(leader) = leader
            && let Some(there) = &leader.peering
        {
            let began = Instant::now();
            match uplink.sound(there).await {
                Ok(()) => pulse.reached(),
                Err(why) => pulse.did_not_reach((&leader.node, leader.seat), why, began),
            }
        } else {
            pulse.reached();
        }
        say(pulse, &mut said);
    }
}

/// Logs once that the leader cannot be reached, and once that it can be reached again.
fn say(pulse: &Pulse, said: &mut Option<(i64, Obstacle)>) {
    let unreached = pulse.unreached();
    let is_reached = unreached.is_none();
    match unreached.filter(|unreached| unreached.span >= SAID_AFTER) {
        Some(now) if *said != Some((now.seat, now.why)) => {
            *said = Some((now.seat, now.why));
            tracing::warn!(
                leader = %now.leader,
                why = %now.why,
                "this server cannot reach the leader; reporting it to the other servers"
            );
        }
        None if said.is_some() && is_reached => {
            *said = None;
            tracing::info!("this server can reach the leader again, or a new leader");
        }
        _ => {}
    }
}
