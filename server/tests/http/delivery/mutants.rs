//! Tests that the tests can fail: each deliberate bug makes one of them fail.

use leasehold_core::mutant::{Mutant, OF_DELIVERY, switch};

use crate::delivery::socket::{
    GROUPS, VERSIONS, gone_after_the_answer, stuck_on_http1, stuck_on_http2,
};
use crate::delivery::way::Way;
use crate::delivery::{Outcome, door, together};

/// Runs the scenarios with this bug. Returns the first failure.
async fn socket(mutant: Mutant) -> Outcome {
    // The server's threads inherit the bug from the thread that starts the server.
    switch(Some(mutant));
    let outcome = async {
        for version in VERSIONS {
            gone_after_the_answer(Way::Clear, version).await?;
        }
        stuck_on_http1(Way::Clear, GROUPS[0]).await?;
        stuck_on_http2(Way::Clear).await
    }
    .await;
    switch(None);
    outcome
}

#[test]
fn every_deliberate_bug_is_found() {
    if !leasehold_core::mutant::IS_BUILT {
        return;
    }
    for mutant in OF_DELIVERY {
        switch(Some(mutant));
        let at_the_door = door::dropped_answers();
        switch(None);
        println!("{mutant:?}: {at_the_door:?}");
        assert!(at_the_door.is_err(), "{mutant:?}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let at_the_socket = runtime.block_on(socket(mutant));
        println!("{mutant:?}: {at_the_socket:?}");
        assert!(at_the_socket.is_err(), "{mutant:?}");
    }
}

#[test]
fn a_grant_that_is_told_in_part_is_found() {
    switch(Some(Mutant::GroupToldInPart));
    let outcome = together::told_whole();
    switch(None);
    println!("{outcome:?}");
    assert!(outcome.is_err());
}
