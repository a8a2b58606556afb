//! The warden: kills the command's group when the lease is about to end, or when `run` is gone.
//!
//! `run` does that itself as long as it can. It cannot if it was killed, or is stopped, or starved. The warden is
//! told each new end of the lease over a pipe that is its standard input; the end of the pipe is the end of
//! `run`. Only SIGKILL ends it early.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use leasehold::Moment;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::child::OURSELVES;
use crate::exit::{Failure, SYSTEM};

/// Nobody is to be killed any more. As a time, it is that of the machine's start.
const DISMISSED: u64 = 0;

/// A warden, as `run` sees it.
pub(super) struct Warden {
    process: Child,
    last: Option<Moment>,
}

impl Warden {
    pub(super) fn start(group: Pid) -> io::Result<Self> {
        let mut command = Command::new(OURSELVES);
        command.arg("warden").arg(format!("--group={}", group.as_raw_nonzero()));
        // It must not keep open what others wait to be closed.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.process_group(0).spawn()?;
        if let Some(pipe) = &process.stdin {
            // A warden that does not read must not hold us up.
            fcntl_setfl(pipe, OFlags::NONBLOCK)?;
        }
        Ok(Self { process, last: None })
    }

    /// Kill the group then, unless told otherwise before.
    pub(super) fn kill_at(&mut self, at: Moment) {
        if self.last.replace(at) != Some(at) {
            self.tell(u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// The group is gone, or is on its own. Whether the warden has heard it yet is not waited for: it may be
    /// stopped, and reads all it was told before it acts.
    pub(super) fn dismiss(&mut self) {
        self.tell(DISMISSED);
    }

    fn tell(&mut self, nanos: u64) {
        if let Some(pipe) = &mut self.process.stdin {
            // If it is gone there is nothing to be done: the system still kills the command with us.
            let _ = pipe.write_all(&nanos.to_le_bytes());
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct WardenArgs {
    /// The group to kill.
    #[arg(long)]
    group: i32,
}

/// Watches until it is dismissed or has killed the group of one that is gone.
pub(crate) fn warden(args: &WardenArgs) -> Result<(), Failure> {
    let group = Pid::from_raw(args.group).filter(|group| !group.is_init());
    let group = group.ok_or_else(|| Failure::new(SYSTEM, "there is no such group"))?;
    watch(group).map_err(|error| Failure::new(SYSTEM, error))
}

fn watch(group: Pid) -> io::Result<()> {
    // Whatever our whole service is sent is not for us.
    nix::sys::signal::SigSet::all().thread_block()?;
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
    let pipe = rustix::stdio::stdin();
    loop {
        let mut files = [PollFd::new(&timer, PollFlags::IN), PollFd::new(&pipe, PollFlags::IN)];
        poll(&mut files, None)?;
        let [time_is_up, has_news] = files.map(|file| !file.revents().is_empty());
        if has_news {
            let mut nanos = [0; 8];
            match rustix::io::read(pipe, &mut nanos)? {
                8 if u64::from_le_bytes(nanos) == DISMISSED => return Ok(()),
                8 => set(&timer, Duration::from_nanos(u64::from_le_bytes(nanos)))?,
                // `run` is gone.
                _ => return kill(group),
            }
        } else if time_is_up {
            kill(group)?;
            set(&timer, Duration::ZERO)?;
        }
    }
}

fn kill(group: Pid) -> io::Result<()> {
    match kill_process_group(group, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Zero turns it off.
fn set(timer: &impl std::os::fd::AsFd, at: Duration) -> io::Result<()> {
    let it_value = Timespec {
        tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at.subsec_nanos().into(),
    };
    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Itimerspec { it_interval, it_value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &times)?;
    Ok(())
}
