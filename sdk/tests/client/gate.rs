//! The fencing gate under many threads.

use std::sync::Mutex;

use leasehold::{FencingGate, Stale};

#[test]
fn what_passes_never_goes_back_to_an_older_token() {
    let gate = FencingGate::default();
    let written = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for first in 0..8 {
            let (gate, written) = (&gate, &written);
            scope.spawn(move || {
                for token in (first..4000).step_by(8) {
                    let _ = gate.write("report", token, || written.lock().unwrap().push(token));
                }
            });
        }
    });
    let written = written.into_inner().unwrap();
    assert!(written.is_sorted(), "an older token was written after a newer one");
    assert_eq!((written.last(), gate.newest("report")), (Some(&3999), Some(3999)));
}

#[test]
fn resources_are_apart_and_a_refused_write_does_not_run() {
    let gate = FencingGate::default();
    gate.raise("a", 5).unwrap();
    assert_eq!(gate.newest("b"), None);
    assert_eq!(gate.write("b", 1, || 7), Ok(7));
    let refused = gate.write("a", 4, || panic!("it was refused"));
    assert_eq!(refused, Err(Stale { token: 4, newest: 5 }));
    assert_eq!(gate.raise("a", 5), Ok(()), "the same holder again");
}

#[test]
fn a_write_that_panics_has_used_its_token() {
    let gate = FencingGate::default();
    let write = || gate.write("a", 2, || panic!("half done"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).is_err());
    assert!(gate.raise("a", 1).is_err());
    assert!(gate.raise("a", 2).is_ok());
}

#[tokio::test]
async fn writes_that_wait_go_one_after_the_other_and_stale_ones_do_not_begin() {
    let gate = FencingGate::default();
    let log = std::sync::Mutex::new(Vec::new());
    let say = |what: &'static str| log.lock().expect("not poisoned").push(what);
    let slow = gate.write_async("report", 7, async || {
        say("seven begins");
        tokio::task::yield_now().await;
        say("seven ends");
    });
    let next = gate.write_async("report", 8, async || say("eight"));
    let stale = gate.write_async("report", 6, async || say("six"));
    let (slow, next, stale) = tokio::join!(slow, next, stale);
    assert_eq!((slow, next), (Ok(()), Ok(())));
    assert!(stale.is_err());
    assert_eq!(*log.lock().expect("not poisoned"), ["seven begins", "seven ends", "eight"]);
    assert_eq!(gate.newest("report"), Some(8));
}
