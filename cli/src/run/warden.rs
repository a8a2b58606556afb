//! The warden: the command's parent process. It kills the command and all its descendants when the lease is about to
//! end, or when `run` is gone.
//!
//! `run` does this itself while it can, but it might be killed, stopped or starved of CPU time. `run` sends each new
//! end of the lease over a socket, which is the warden's standard input. If the socket closes, `run` is gone. The
//! warden needs no network and no other process, and only SIGKILL ends it early. In that case the kernel kills the
//! command, and `run` kills the rest.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::child::{Exit, OURSELVES};
use super::contain::Containment;
use super::message::{BYTES, Order, Report};
use crate::exit::{Failure, SYSTEM};

#[derive(Args, Debug)]
pub(crate) struct WardenArgs {
    /// Contain only the process group.
    #[arg(long)]
    group: bool,
    /// The control group to start the command in.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Give the terminal to the command.
    #[arg(long)]
    foreground: bool,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Watches the command until `run` dismisses the warden or dies. If `run` dies, the warden kills the command and its
/// descendants.
pub(crate) fn warden(args: &WardenArgs) -> Result<(), Failure> {
    watch(args).map_err(|error| Failure::new(SYSTEM, error))
}

/// The command that the warden watches.
struct Watched {
    pid: Pid,
    containment: Containment,
    has_ended: bool,
}

fn watch(args: &WardenArgs) -> io::Result<()> {
    // Signals sent to the whole service are not meant for the warden.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let mut child = SigSet::empty();
    child.add(NixSignal::SIGCHLD);
    let changes = SignalFd::with_flags(&child, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
    let socket = rustix::stdio::stdin();
    let mut watched = match start(args, socket, &before) {
        Ok(Some(watched)) => watched,
        // `run` ended before it sent the start order.
        Ok(None) => return Ok(()),
        Err(error) => return report(socket, Report::NotStarted(errno(&error))),
    };
    report(socket, Report::Started(watched.pid.as_raw_nonzero().get()))?;
    // The command might have ended before the first poll.
    watched.look(socket)?;
    loop {
        let mut files = [
            PollFd::new(&socket, PollFlags::IN),
            PollFd::new(&timer, PollFlags::IN),
            PollFd::new(&changes, PollFlags::IN),
        ];
        poll(&mut files, None)?;
        let [has_orders, time_is_up, has_changed] = files.map(|file| !file.revents().is_empty());
        if has_orders {
            // Orders that arrived before the time was up still count.
            match order(socket)? {
                Some((Order::KillAt(nanos), _)) => set(&timer, Duration::from_nanos(nanos))?,
                Some((Order::Dismiss, _)) => return Ok(()),
                Some((Order::Start, _)) => {}
                None => {
                    watched.kill();
                    watched.containment.dissolve();
                    return Ok(());
                }
            }
        } else if time_is_up {
            watched.kill();
            set(&timer, Duration::ZERO)?;
        }
        if has_changed {
            while changes.read_signal()?.is_some() {}
            watched.look(socket)?;
        }
    }
}

/// Waits for the command's standard files and starts the command with the signal mask `before`, which should be empty.
fn start(args: &WardenArgs, socket: impl AsFd, before: &SigSet) -> io::Result<Option<Watched>> {
    let containment = match (&args.cgroup, args.group) {
        (Some(folder), _) => Containment::Cgroup(folder.clone()),
        (None, true) => Containment::Group,
        (None, false) => Containment::Tree,
    };
    if containment.adopts() {
        set_child_subreaper(Some(getpid()))?;
    }
    let Some((Order::Start, files)) = order(socket)? else { return Ok(None) };
    let [stdin, stdout, stderr] = <[OwnedFd; 3]>::try_from(files)
        .map_err(|_| io::Error::other("the command's standard files were not received"))?;
    let mut launch = Command::new(OURSELVES);
    launch.arg("launch").arg(format!("--parent={}", getpid().as_raw_nonzero()));
    if let Some(folder) = &args.cgroup {
        launch.arg("--cgroup").arg(folder);
    }
    if args.foreground {
        launch.arg("--foreground");
    }
    launch.arg("--").args(&args.command);
    launch.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    before.thread_set_mask()?;
    let child = launch.process_group(0).spawn();
    SigSet::all().thread_set_mask()?;
    let child = child?;
    // `launch` drops its files here: no process may have to wait for the warden to close them.
    Ok(Some(Watched { pid: Pid::from_child(&child), containment, has_ended: false }))
}

impl Watched {
    fn kill(&self) {
        self.containment.kill(getpid(), self.pid);
    }

    /// Reports changes of the command, and reaps adopted processes that have ended. The command itself is not reaped,
    /// so that no other process can get its number, which is also the number of its group.
    fn look(&mut self, socket: impl AsFd) -> io::Result<()> {
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.pid), looking) {
            let exited = status.exit_status().map(|code| Exit::Code(code as u8));
            let exit = exited.or_else(|| status.terminating_signal().map(Exit::Signal));
            if let Some(exit) = exit.filter(|_| !std::mem::replace(&mut self.has_ended, true)) {
                report(&socket, Report::Ended(exit))?;
            }
            return Ok(());
        }
        while let Some(pid) = ended_child() {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.pid), stopped)
            && let Some(number) = status.stopping_signal()
        {
            report(&socket, Report::Stopped(number))?;
        }
        Ok(())
    }
}

/// Returns an adopted process that has ended.
fn ended_child() -> Option<Pid> {
    let options = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let status = nix::sys::wait::waitid(Id::All, options).ok()?;
    status.pid().and_then(|pid| Pid::from_raw(pid.as_raw()))
}

/// Returns the next order and the files that came with it, or `None` if `run` is gone.
fn order(socket: impl AsFd) -> io::Result<Option<(Order, Vec<OwnedFd>)>> {
    let mut bytes = [0; BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [io::IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let n = match recvmsg(socket, &mut slices, &mut ancillary, flags) {
        Ok(message) => message.bytes,
        // `run` ended without reading all our reports.
        Err(Errno::CONNRESET) => 0,
        Err(error) => return Err(error.into()),
    };
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    Ok(Order::read(bytes).filter(|_| n == BYTES).map(|order| (order, files)))
}

/// Sends a report. An error caused by the end of `run` is ignored: reading the next order detects it.
fn report(socket: impl AsFd, report: Report) -> io::Result<()> {
    match send(socket, &report.write(), SendFlags::NOSIGNAL) {
        Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Sets the timer to this time; zero turns it off.
fn set(timer: &impl AsFd, at: Duration) -> io::Result<()> {
    let it_value = Timespec {
        tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at.subsec_nanos().into(),
    };
    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Itimerspec { it_interval, it_value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &times)?;
    Ok(())
}
