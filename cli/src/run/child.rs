//! The command: started, watched, signalled.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use leasehold::LockGuard;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, waitid};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::terminal::Terminal;
use crate::exit::SIGNAL;

/// This very binary, whatever has been done to its file since.
pub(super) const OURSELVES: &str = "/proc/self/exe";

/// A command in a process group of its own, of which it is the leader.
pub(super) struct Child {
    pid: Pid,
    /// SIGCHLD.
    changes: Stream,
}

/// What became of it.
pub(super) enum Status {
    /// It ended, with what we should end with.
    Ended(u8),
    /// It was stopped by this signal.
    Stopped(Signal),
}

impl Child {
    /// Starts it. The terminal is handed over at once if it is plainly meant for the command.
    pub(super) fn start(
        guard: &LockGuard,
        command: &[OsString],
        terminal: Option<&Terminal>,
    ) -> io::Result<Self> {
        let changes = signal(SignalKind::child())?;
        let mut launch = Command::new(OURSELVES);
        launch.arg("launch").arg(format!("--parent={}", getpid().as_raw_nonzero()));
        if terminal.is_some_and(Terminal::is_meant_for_the_command) {
            launch.arg("--foreground");
        }
        launch.arg("--").args(command);
        launch.env("LEASEHOLD_LOCK", guard.name());
        launch.env("LEASEHOLD_FENCING_TOKEN", guard.fencing_token().to_string());
        launch.env("LEASEHOLD_LEASE_ID", guard.lease_id());
        let deadline = guard.deadline().since_boot();
        launch.env("LEASEHOLD_DEADLINE", format!("{:.3}", deadline.as_secs_f64()));
        let child = launch.process_group(0).spawn()?;
        Ok(Self { pid: Pid::from_child(&child), changes })
    }

    pub(super) fn group(&self) -> Pid {
        self.pid
    }

    /// Signals the whole group. It is there until it is reaped, even if everybody in it has ended.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// The next thing that happens to it.
    pub(super) async fn change(&mut self) -> Status {
        loop {
            if let Some(status) = self.peek() {
                return Status::Ended(status);
            }
            if let Some(signal) = self.stop() {
                return Status::Stopped(signal);
            }
            self.changes.recv().await;
        }
    }

    /// Returns when it has ended.
    pub(super) async fn ended(&mut self) {
        while self.peek().is_none() {
            self.changes.recv().await;
        }
    }

    /// What we should end with, once it has ended.
    pub(super) fn status(&self) -> u8 {
        self.peek().unwrap_or(SIGNAL)
    }

    /// Lets go of it, and of the number of its group.
    pub(super) fn reap(&self) {
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED);
    }

    /// How it ended, if it has. It is left to be reaped, so that nobody else gets the number of its group.
    fn peek(&self) -> Option<u8> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid), options).ok()??;
        let by_signal = |signal: i32| SIGNAL.wrapping_add(signal as u8);
        let exited = status.exit_status().map(|status| status as u8);
        exited.or_else(|| status.terminating_signal().map(by_signal))
    }

    /// What stopped it, if something did since we last asked.
    fn stop(&self) -> Option<Signal> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.pid), options).ok()??;
        status.stopping_signal().and_then(Signal::from_named_raw)
    }
}
