//! Secrets are sent only to the server, and never shown.

use serde_json::json;

use super::ms;
use crate::flaw::{Outcome, demand};
use crate::world::World;

const API_KEY: &str = "conformance-key-5d1c0a77";

pub(super) async fn api_key_is_secret(world: &World) -> Outcome {
    let fields = json!({"urls": [world.link().url()], "api_key": API_KEY});
    world.connect_with("alice", fields).await?;
    world.acquire("alice", "a", json!({"ttl_ms": 9000})).await?;
    // Error messages must not contain secrets either.
    world.server.kill().await;
    world.log.when_seen("/renew", 2, ms(6000)).await?;
    world.server.start_again().await?;
    world.release("alice", "a").await?;
    let seen = world.log.of("/v1/");
    for seen in &seen {
        let bearer = seen.bearer.as_deref();
        demand!(bearer == Some(API_KEY), "{} {} was sent with {bearer:?}", seen.method, seen.path);
    }
    let said = world.driver.said();
    demand!(!said.contains(API_KEY), "the API key was shown");
    for lease_id in seen.iter().filter_map(|seen| seen.body["lease_id"].as_str()) {
        demand!(!said.contains(lease_id), "a lease id was shown");
    }
    Ok(())
}
