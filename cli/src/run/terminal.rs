//! The terminal, and whose it is.
//!
//! A terminal belongs to one process group at a time; whoever else reads from it is stopped. The command has a
//! group of its own, so that it can be killed as a whole without us. So we hand the terminal over, as a shell
//! does, and take it back.

use std::fs::File;
use std::io::IsTerminal;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::Pid;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The terminal we were started from.
pub(super) struct Terminal {
    tty: File,
    /// As we found it.
    modes: Option<Termios>,
}

impl Terminal {
    /// `None` if there is none: in a service, or in cron.
    pub(super) fn ours() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&tty).ok();
        Some(Self { tty, modes })
    }

    /// It is ours to give, and the command reads and writes it. In a pipe another part of it, a pager perhaps, may
    /// need it more: then the command gets it when it asks for it.
    pub(super) fn is_meant_for_the_command(&self) -> bool {
        self.is_ours() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    /// Our group has it.
    pub(super) fn is_ours(&self) -> bool {
        our_group().is_some_and(|group| self.belongs_to(group))
    }

    /// This group has it.
    pub(super) fn belongs_to(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty) == Ok(group)
    }

    /// It was hung up: the window was closed, or the connection broke.
    pub(super) fn is_gone(&self) -> bool {
        tcgetpgrp(&self.tty).is_err()
    }

    pub(super) fn give(&self, group: Pid) {
        quietly(|| {
            // If it fails the terminal is gone, or never was for us.
            let _ = tcsetpgrp(&self.tty, group);
        });
    }

    /// Takes it back, if the command has it.
    pub(super) fn take_from(&self, group: Pid) {
        if let Some(ours) = our_group().filter(|_| self.belongs_to(group)) {
            self.give(ours);
        }
    }

    /// Sets it as we found it: whoever was killed could not.
    pub(super) fn restore(&self) {
        if let Some(modes) = self.modes.as_ref().filter(|_| self.is_ours()) {
            let _ = tcsetattr(&self.tty, OptionalActions::Drain, modes);
        }
    }
}

/// `None` in a container that was entered from outside, if the group has no number there: then the terminal is
/// not ours to give either.
fn our_group() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}

/// Without being stopped for it, as whoever sets the terminal's group from the background is.
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
