//! Signals that `run` receives and passes on to the command.

use std::io;

use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Signals that people, terminals and service managers send to a command.
const PASSED_ON: [Signal; 9] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];

/// Signals that end `run` while it waits for the lock.
const DEADLY: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// A stream of received signals.
pub(super) struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Catches every signal that is passed on, except those that the parent process set to be ignored: `nohup` must
    /// keep working, and the command would no longer ignore a signal that `run` catches.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let taken = PASSED_ON.into_iter().filter(|signal| !ignored.contains(signal));
        let streams = taken.map(|each| Ok((each, signal(SignalKind::from_raw(each.as_raw()))?)));
        Ok(Self { streams: streams.collect::<io::Result<_>>()? })
    }

    /// Returns the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// Returns when SIGCONT arrives.
    pub(super) async fn continued(&mut self) {
        match self.streams.iter_mut().find(|(signal, _)| *signal == Signal::CONT) {
            Some((_, stream)) => drop(stream.recv().await),
            None => std::future::pending().await,
        }
    }

    /// Returns the next signal whose default effect is to end a process. On SIGTSTP, it stops the process group and
    /// continues to wait.
    pub(super) async fn deadly(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::TSTP => stop_group(),
                signal if DEADLY.contains(&signal) => return signal,
                _ => {}
            }
        }
    }
}

/// Stops our whole process group, as the terminal would if the command were in it. Sends SIGTTIN, which `run` does not
/// catch: the kernel ignores it if there is no shell that could continue the group.
pub(super) fn stop_group() {
    // This cannot fail: a process may signal itself.
    let _ = kill_current_process_group(Signal::TTIN);
}

/// Returns the signals that were ignored when this process started.
fn ignored() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let is_ignored = |signal: &Signal| mask & (1 << (signal.as_raw() - 1)) != 0;
    PASSED_ON.into_iter().filter(is_ignored).collect()
}
