//! Hands the terminal over to the command and takes it back.
//!
//! A terminal belongs to one process group at a time; the kernel stops a process of another group that reads from it.
//! The command has its own process group, so that it can be killed as a whole without `run`. So `run` hands the
//! terminal over, as a shell does, and takes it back at the end.

use std::fs::File;
use std::io::IsTerminal;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::Pid;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The controlling terminal of this process.
pub(super) struct Terminal {
    tty: File,
    /// The terminal modes when `run` started.
    modes: Option<Termios>,
}

impl Terminal {
    /// Returns `None` if there is no terminal, as in a service or in cron.
    pub(super) fn ours() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&tty).ok();
        Some(Self { tty, modes })
    }

    /// Returns whether our group has the terminal and the command would use it for both input and output. In a pipeline
    /// another process, such as a pager, might need it more: then the command gets it only when it tries to use it.
    pub(super) fn is_meant_for_the_command(&self) -> bool {
        self.is_ours() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    /// Returns whether our process group has the terminal.
    pub(super) fn is_ours(&self) -> bool {
        our_group().is_some_and(|group| self.belongs_to(group))
    }

    /// Returns whether `group` has the terminal.
    pub(super) fn belongs_to(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty) == Ok(group)
    }

    /// Returns whether the terminal was hung up: the window was closed, or the connection broke.
    pub(super) fn is_gone(&self) -> bool {
        tcgetpgrp(&self.tty).is_err()
    }

    pub(super) fn give(&self, group: Pid) {
        quietly(|| {
            // If this fails, the terminal is gone, or was never ours.
            let _ = tcsetpgrp(&self.tty, group);
        });
    }

    /// Takes the terminal back if `group` has it.
    pub(super) fn take_from(&self, group: Pid) {
        if let Some(ours) = our_group().filter(|_| self.belongs_to(group)) {
            self.give(ours);
        }
    }

    /// Restores the terminal modes from the start: a killed command cannot do it.
    pub(super) fn restore(&self) {
        if let Some(modes) = self.modes.as_ref().filter(|_| self.is_ours()) {
            let _ = tcsetattr(&self.tty, OptionalActions::Drain, modes);
        }
    }
}

/// Returns our process group. `None` in a container that was entered from outside, if the group has no number there:
/// then the terminal is not ours to give either.
fn our_group() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}

/// Runs `set` with SIGTTOU blocked: setting the terminal's group from the background would stop this process.
fn quietly(set: impl FnOnce()) {
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGTTOU);
    match stop.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
        Ok(before) => {
            set();
            let _ = before.thread_set_mask();
        }
        Err(_) => set(),
    }
}
