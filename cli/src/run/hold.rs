//! `run --hold`: the lock and nothing else, until somebody has enough of it.

use std::io::{IsTerminal, Read};

use serde_json::json;
use tokio::sync::oneshot;

use super::ending::{Ending, Whom};
use super::held::{Held, Lease};
use super::release::{Release, lost};
use super::signals::Signals;
use super::terminal::Terminal;
use crate::exit::Failure;
use crate::output::{plain, print, print_json};

/// Says that it is held, on standard output so that a script can wait for the line, and holds it.
pub(super) async fn hold(
    guard: Held,
    mut signals: Signals,
    release: Release,
    as_json: bool,
) -> Result<Ending, Failure> {
    if let Err(failure) = announce(&guard, as_json) {
        // Whoever waits for the line would wait for ever.
        release.at_once(guard).await;
        return Err(failure);
    }
    let input = end_of_input();
    let ending = tokio::select! {
        biased;
        loss = guard.lost() => return Err(lost(&guard, loss)),
        signal = signals.deadly() => Ending::Signal(signal, Whom::Ourselves),
        () = input => Ending::Status(0),
    };
    release.finish(guard, signals, ending).await
}

fn announce(guard: &Held, as_json: bool) -> Result<(), Failure> {
    if !as_json {
        return print(&format!("holding {}, token {}", plain(guard.name()), guard.tokens()));
    }
    // A line for each lock.
    guard.leases().into_iter().try_for_each(|Lease { lock_name, lease_id, fencing_token }| {
        print_json(&json!({
            "lock_name": lock_name,
            "owner_id": guard.owner(),
            "lease_id": lease_id,
            "fencing_token": fencing_token,
        }))
    })
}

/// Returns when standard input ends. In the background of a terminal nobody reads: that would stop us.
async fn end_of_input() {
    let is_for_others = || Terminal::ours().is_some_and(|terminal| !terminal.is_ours());
    if std::io::stdin().is_terminal() && is_for_others() {
        return std::future::pending().await;
    }
    let (ended, end) = oneshot::channel();
    // It cannot be interrupted, and ends with the process at the latest.
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let mut input = std::io::stdin().lock();
        while matches!(input.read(&mut buffer), Ok(1..)) {}
        let _ = ended.send(());
    });
    let _ = end.await;
}
