//! The command: started, watched, signalled.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, waitid};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::terminal::Terminal;

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
    Ended(Exit),
    /// It was stopped by this signal.
    Stopped(Signal),
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    /// With this exit status.
    Code(u8),
    /// By the signal of this number.
    Signal(i32),
}

impl Child {
    /// How to start it: by way of ourselves. The terminal is handed over at once if it is plainly meant for the
    /// command.
    pub(super) fn launch(command: &[OsString], terminal: Option<&Terminal>) -> Command {
        let mut launch = Command::new(OURSELVES);
        launch.arg("launch").arg(format!("--parent={}", getpid().as_raw_nonzero()));
        if terminal.is_some_and(Terminal::is_meant_for_the_command) {
            launch.arg("--foreground");
        }
        launch.arg("--").args(command);
        launch
    }

    pub(super) fn start(mut launch: Command) -> io::Result<Self> {
        let changes = signal(SignalKind::child())?;
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
            if let Some(exit) = self.peek() {
                return Status::Ended(exit);
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

    /// Lets go of it, and of the number of its group.
    pub(super) fn reap(&self) {
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED);
    }

    /// How it ended, if it has. It is left to be reaped, so that nobody else gets the number of its group.
    fn peek(&self) -> Option<Exit> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid), options).ok()??;
        let exited = status.exit_status().map(|code| Exit::Code(code as u8));
        exited.or_else(|| status.terminating_signal().map(Exit::Signal))
    }

    /// What stopped it, if something did since we last asked.
    fn stop(&self) -> Option<Signal> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.pid), options).ok()??;
        status.stopping_signal().and_then(Signal::from_named_raw)
    }
}
