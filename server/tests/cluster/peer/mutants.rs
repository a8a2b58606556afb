//! Tests that the tests can fail: each deliberate bug makes one of them fail.

use leasehold_core::mutant::{Mutant, OF_PEERS, switch};

use crate::peer::{Outcome, hop, past};

async fn play(mutant: Mutant) -> Outcome {
    match mutant {
        Mutant::HeldTimeIgnored => hop::held_for_a_while().await,
        Mutant::LostIsRepeated => hop::lost_on_the_way().await,
        Mutant::GiveBackWhatIsKnownElsewhere => hop::told_through_two_servers().await,
        Mutant::CursorAheadNotAwaited => past::ahead_of_a_follower().await,
        other => panic!("{other:?} has no scene"),
    }
}

#[test]
fn every_deliberate_bug_is_found() {
    if !leasehold_core::mutant::IS_BUILT {
        return;
    }
    for mutant in OF_PEERS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        // The server's threads inherit the bug from the thread that starts the server.
        switch(Some(mutant));
        let outcome = runtime.block_on(play(mutant));
        switch(None);
        println!("{mutant:?}: {outcome:?}");
        assert!(outcome.is_err(), "{mutant:?}");
    }
}
