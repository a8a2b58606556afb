//! Sets up a process, then turns it into the command with `exec`.
//!
//! Some settings of the command can only be made within its own process, between the fork and the start of its program.
//! Rust makes code that runs there `unsafe`, because hardly anything is allowed after a fork. So the warden starts
//! `leasehold launch` instead: an ordinary process that makes the settings and becomes the command by `exec`, which
//! keeps them.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::terminal::Terminal;
use crate::exit::{Failure, NOT_STARTED, SIGNAL};

#[derive(Args, Debug)]
pub(crate) struct LaunchArgs {
    /// Process id of the warden that started us.
    #[arg(long)]
    parent: i32,
    /// The control group to join.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Take the terminal.
    #[arg(long)]
    foreground: bool,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the command. Returns only if that failed.
pub(crate) fn launch(args: &LaunchArgs) -> Failure {
    let [program, arguments @ ..] = &args.command[..] else {
        return Failure::new(NOT_STARTED, "there is no command");
    };
    let not_started = |why: &dyn std::fmt::Display| {
        Failure::new(NOT_STARTED, format!("{}: {why}", program.display()))
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return not_started(&error);
    }
    // The warden might have died before the signal was set. Then no process supervises the command.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(args.parent) {
        return Failure::new(
            SIGNAL + Signal::KILL.as_raw() as u8,
            "the warden process of `leasehold run` has ended",
        );
    }
    // The kernel reads 0 as the process that writes it.
    let joined =
        args.cgroup.as_ref().map(|folder| std::fs::write(folder.join("cgroup.procs"), "0"));
    if let Some(Err(error)) = joined {
        return not_started(&format!("cannot join its control group: {error}"));
    }
    if args.foreground
        && let Some(terminal) = Terminal::ours()
    {
        terminal.give(getpid());
    }
    let error = Command::new(program).args(arguments).exec();
    match error.kind() {
        ErrorKind::NotFound if !program.to_string_lossy().contains('/') => {
            not_started(&"command not found")
        }
        ErrorKind::NotFound => {
            not_started(&"the file, or the interpreter it names, does not exist")
        }
        ErrorKind::PermissionDenied => not_started(&"permission denied; is it executable?"),
        _ => not_started(&error),
    }
}
