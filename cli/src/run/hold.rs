//! `run --hold`: holds the lock without a command, until a signal or the end of standard input.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use tokio::sync::oneshot;

use super::ending::{Ending, Whom};
use super::held::{Held, Lease};
use super::release::{Release, lost};
use super::signals::Signals;
use super::terminal::Terminal;
use crate::exit::Failure;
use crate::output::{plain, print, print_json};

/// Interval for checking whether the terminal is in the foreground again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Announces the lock on standard output, so that a script can wait for the line, and then holds it.
pub(super) async fn hold(
    guard: Held,
    mut signals: Signals,
    release: Release,
    as_json: bool,
) -> Result<Ending, Failure> {
    if let Err(failure) = announce(&guard, as_json) {
        // A script that waits for the line would wait forever.
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

/// Returns when standard input ends. Never returns if it is `/dev/null`, as in the background of a script, in a service
/// and in cron: its end does not mean that the lock is no longer wanted.
async fn end_of_input() {
    if is_nothing() {
        return std::future::pending().await;
    }
    let (ended, end) = oneshot::channel();
    // The read cannot be interrupted. The thread ends with the process at the latest.
    std::thread::spawn(move || {
        read_to_end();
        let _ = ended.send(());
    });
    let _ = end.await;
}

/// Returns whether standard input is `/dev/null`.
fn is_nothing() -> bool {
    let device = std::fs::metadata("/dev/null").map(|facts| facts.rdev());
    let input = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let input = input.and_then(|input| input.metadata()).map(|facts| facts.rdev());
    matches!((device, input), (Ok(device), Ok(input)) if device == input)
}

/// Reads standard input to its end. While the terminal is not in the foreground, it does not read: reading would stop
/// this process, and then the lease would expire.
fn read_to_end() {
    let stdin = std::io::stdin();
    let terminal = stdin.is_terminal().then(Terminal::ours).flatten();
    let mut buffer = [0; 4096];
    loop {
        let _ = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None);
        match &terminal {
            Some(terminal) if terminal.is_gone() => return,
            Some(terminal) if !terminal.is_ours() => std::thread::sleep(LOOK_AGAIN),
            _ if matches!(stdin.lock().read(&mut buffer), Ok(1..)) => {}
            _ => return,
        }
    }
}
