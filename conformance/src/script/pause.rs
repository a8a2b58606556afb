//! A client that is suspended beyond the end of its lease, without noticing.

use serde_json::json;

use super::{WAIT_MS, ms};
use crate::flaw::{Flaw, Outcome, demand};
use crate::world::World;

pub(super) async fn paused_client(world: &World) -> Outcome {
    world.connect("alice").await?;
    let token = world.acquire("alice", "a", json!({"ttl_ms": 1500})).await?;
    match world.write("alice:a", "in time", true).answer().await? {
        Ok(answer) if answer["status"] == 200 => {}
        answer => return Err(Flaw::Wrong(format!("a write in time was answered {answer:?}"))),
    }
    world.driver.stop()?;
    let bob = world.server.acquire("a", "bob", json!({"wait_ms": WAIT_MS})).await?;
    demand!(bob.token() > token, "the token of the next grant is larger");
    demand!(world.resource.write(bob.token(), "bob"), "bob could not write");
    // All these commands are in its pipe when it resumes, before any of its timers can fire.
    let check = world.driver.begin(json!({"do": "check", "lease": "alice:a"}));
    let checked = world.write("alice:a", "checked", true);
    let unchecked = world.write("alice:a", "unchecked", false);
    world.driver.go_on()?;
    let check = check.answer().await?;
    let says_lost = matches!(&check, Ok(answer) if answer["held"] == false);
    demand!(says_lost, "the first `check` after a pause was answered {check:?}");
    match checked.answer().await? {
        Err(no) if no.name == "lost" => {}
        answer => return Err(Flaw::Wrong(format!("a checked write after a pause: {answer:?}"))),
    }
    match unchecked.answer().await? {
        Ok(answer) if answer["status"] == 409 => {}
        answer => return Err(Flaw::Wrong(format!("a late write was answered {answer:?}"))),
    }
    world.driver.lost(("lease", "alice:a"), ms(2000)).await?;
    let writes = world.resource.writes();
    let accepted: Vec<_> = writes.iter().filter(|write| write.is_accepted).collect();
    let values: Vec<_> = accepted.iter().map(|write| &*write.value).collect();
    demand!(values == ["in time", "bob"], "these writes were accepted: {accepted:?}");
    let late: Vec<_> = writes.iter().filter(|write| !write.is_accepted).collect();
    demand!(
        late.len() == 1 && late[0].token == token && late[0].value == "unchecked",
        "one late write with token {token} should have been tried, not {late:?}"
    );
    Ok(())
}
