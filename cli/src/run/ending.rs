//! How `run` ends: with a status, or by the signal that ended its command.
//!
//! A shell that waits for `run` checks how `run` ended. Only if `run` *died of* SIGINT does the shell treat Ctrl-C as
//! meant for the whole script; an exit status of 130 is an ordinary failure. On a terminal, Ctrl-C reaches only the
//! process group of the command, not the script that called `run`. So once the command is dead and the lock is
//! released, `run` sends the signal on to its own whole group.
//!
//! Dying of a signal needs the signal's default disposition, and setting that is `unsafe` in Rust. `exec` resets every
//! caught signal to its default, so `run` becomes `leasehold die`, which sends the signal.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use rustix::process::{
    Resource, Rlimit, Signal, getpid, kill_current_process_group, kill_process, setrlimit,
};

use super::child::OURSELVES;
use crate::exit::SIGNAL;

/// How to end the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The command ended with this exit status.
    Status(u8),
    /// The command ended by this signal. `run` ends by the same signal, with its default effect.
    Signal(Signal, Whom),
}

/// Which processes get the signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whom {
    /// Only this process got the signal, because its sender chose the targets.
    Ourselves,
    /// Our whole process group, including the script that called us: the terminal sent the signal.
    Group,
}

impl Ending {
    /// Ends the process. Returns status 128 plus the signal number if the process cannot die of the signal.
    pub(crate) fn end(self) -> ExitCode {
        let (signal, whom) = match self {
            Ending::Status(status) => return ExitCode::from(status),
            Ending::Signal(signal, whom) => (signal, whom),
        };
        let mut die = Command::new(OURSELVES);
        die.arg("die").arg(format!("--signal={}", signal.as_raw()));
        if whom == Whom::Group {
            die.arg("--group");
        }
        let _not_possible = die.exec();
        status_of(signal)
    }
}

#[derive(Args, Debug)]
pub(crate) struct DieArgs {
    /// The number of the signal.
    #[arg(long)]
    signal: i32,
    /// Send it to the whole process group.
    #[arg(long)]
    group: bool,
}

/// Sends the signal. Returns only if the signal is ignored, or if we are the first process of a container, which the
/// kernel protects from its own signals.
pub(crate) fn die(args: &DieArgs) -> ExitCode {
    let Some(signal) = Signal::from_named_raw(args.signal) else {
        return ExitCode::from(SIGNAL);
    };
    // SIGQUIT would leave a core file of `leasehold`, which is useless.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = if args.group {
        kill_current_process_group(signal)
    } else {
        kill_process(getpid(), signal)
    };
    status_of(signal)
}

fn status_of(signal: Signal) -> ExitCode {
    ExitCode::from(SIGNAL.wrapping_add(signal.as_raw() as u8))
}
