//! How `run` ends: with a status, or by the signal that ended its command.
//!
//! A shell that waits for us looks at how we ended. Only if we *died of* SIGINT does it take Ctrl-C as meant for the
//! whole script; a status of 130 is an ordinary failure to it. And on a terminal it is the command's group that gets
//! Ctrl-C, not the script that called us: so the signal is sent on to our whole group, once the command is dead and
//! the lock is given back.
//!
//! Dying of a signal takes its default disposition, and setting that is `unsafe` in Rust. `exec` sets it for every
//! signal that was caught, so we become `leasehold die` and do it there.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use rustix::process::{
    Resource, Rlimit, Signal, getpid, kill_current_process_group, kill_process, setrlimit,
};

use super::child::OURSELVES;
use crate::exit::SIGNAL;

/// How to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// With this exit status.
    Status(u8),
    /// By this signal, as everybody does who does not care about it.
    Signal(Signal, Whom),
}

/// Who gets the signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whom {
    /// Only this process: whoever sent it chose whom to send it to.
    Ourselves,
    /// Everybody in our group, the script that called us among them: the terminal sent it.
    Group,
}

impl Ending {
    /// Ends this way; with a status of 128 and the number if we cannot die of the signal.
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

/// Returns only if the signal is ignored, or if we are the first process of a container, whom the system spares.
pub(crate) fn die(args: &DieArgs) -> ExitCode {
    let Some(signal) = Signal::from_named_raw(args.signal) else {
        return ExitCode::from(SIGNAL);
    };
    // SIGQUIT would leave a core file of ours, which is of no use to anybody.
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
