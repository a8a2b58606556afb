//! Becoming the command.
//!
//! Some of what a command needs can only be set from within its own process, between its start and its program.
//! Rust calls code that runs there `unsafe`, because after a fork hardly anything may be done. So we start
//! ourselves instead, an ordinary process that may do everything, set it here, and become the command by `exec`,
//! which keeps it all.

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
    /// Who started us.
    #[arg(long)]
    parent: i32,
    /// The control group to be in.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Take the terminal.
    #[arg(long)]
    foreground: bool,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Returns only if it failed.
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
    // It may have died before that was set. Then nobody watches over us.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(args.parent) {
        return Failure::new(
            SIGNAL + Signal::KILL.as_raw() as u8,
            "the warden of `leasehold run` is gone",
        );
    }
    // 0 is whoever writes it.
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
            not_started(&"there is no such file, or not the interpreter it names")
        }
        ErrorKind::PermissionDenied => not_started(&"permission denied; is it executable?"),
        _ => not_started(&error),
    }
}
