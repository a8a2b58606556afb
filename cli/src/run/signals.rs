//! The signals that are passed on to the command.

use std::io;

use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What a command may be sent by people, terminals and service managers.
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

/// Those that would have ended us while we waited for the lock.
const DEADLY: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// Signals as they come.
pub(super) struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Takes every signal that is passed on, but for those that whoever started us lets be ignored: `nohup` must
    /// go on to work, and what we take the command would not ignore any more.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let taken = PASSED_ON.into_iter().filter(|signal| !ignored.contains(signal));
        let streams = taken.map(|each| Ok((each, signal(SignalKind::from_raw(each.as_raw()))?)));
        Ok(Self { streams: streams.collect::<io::Result<_>>()? })
    }

    /// The next one.
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

    /// Returns when we were continued.
    pub(super) async fn continued(&mut self) {
        match self.streams.iter_mut().find(|(signal, _)| *signal == Signal::CONT) {
            Some((_, stream)) => drop(stream.recv().await),
            None => std::future::pending().await,
        }
    }

    /// The next one that would end a process which does not care. A stop stops us.
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

/// Stops our whole group, as the terminal would have if the command were in it. By SIGTTIN, which we do not take:
/// the system stops nobody by it whom no shell could continue.
pub(super) fn stop_group() {
    // It cannot fail: we may signal ourselves.
    let _ = kill_current_process_group(Signal::TTIN);
}

/// Ignored since before we were started.
fn ignored() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let is_ignored = |signal: &Signal| mask & (1 << (signal.as_raw() - 1)) != 0;
    PASSED_ON.into_iter().filter(is_ignored).collect()
}
