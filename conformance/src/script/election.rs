//! Leader election: one leader at a time.

use serde_json::json;

use super::{SOON, ms};
use crate::flaw::{Outcome, demand};
use crate::world::{World, granted};

pub(super) async fn election(world: &World) -> Outcome {
    for candidate in ["alice", "bob"] {
        world.connect(candidate).await?;
    }
    let campaign = |candidate: &str| {
        world.driver.begin(json!({
            "do": "campaign", "client": candidate, "lease": candidate, "election": "scheduler",
            "value": format!("http://{candidate}"), "ttl_ms": 1500,
        }))
    };
    let leader = json!({"do": "leader", "client": "bob", "election": "scheduler"});
    let none = world.driver.ask(leader.clone()).await?;
    demand!(none["leader"].is_null(), "there is no leader yet: {none}");
    let first = granted(campaign("alice")).await?;
    let mut second = campaign("bob");
    world.server.wait_for_queue("scheduler", &["bob"], SOON).await?;
    let told = world.driver.ask(leader.clone()).await?;
    let expected = json!({"owner": "alice", "value": "http://alice", "fencing_token": first});
    demand!(told["leader"] == expected, "alice leads: {told}");
    world.stays_held(&["alice"], ms(2000)).await?;
    demand!(!second.is_answered(), "two lead at once");
    world.driver.ask(json!({"do": "release", "lease": "alice"})).await?;
    let token = granted(second).await?;
    demand!(token > first, "the second term has token {token}, the first had {first}");
    let told = world.driver.ask(leader).await?;
    let expected = json!({"owner": "bob", "value": "http://bob", "fencing_token": token});
    demand!(told["leader"] == expected, "bob leads: {told}");
    Ok(())
}
