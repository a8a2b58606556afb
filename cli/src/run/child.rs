//! The command, as `run` sees it: by way of its warden, who is its parent.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::{Child as Process, Command, Stdio};

use leasehold::Moment;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group, set_child_subreaper};
use tokio::net::UnixStream;

use super::contain::Containment;
use super::message::{BYTES, Order, Report};
use super::terminal::Terminal;

/// This very binary, whatever has been done to its file since.
pub(super) const OURSELVES: &str = "/proc/self/exe";

/// A command in a process group of its own, of which it is the leader.
pub(super) struct Child {
    pid: Pid,
    warden: Process,
    containment: Containment,
    socket: UnixStream,
    /// What came and is no whole report yet.
    received: Vec<u8>,
    /// Until when the warden was last told to wait.
    kill_at: Option<Moment>,
    has_ended: bool,
}

/// What became of it.
pub(super) enum Status {
    Ended(Exit),
    /// It was stopped by this signal.
    Stopped(Signal),
    /// The warden was killed, and the system killed the command.
    WardenGone,
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
    /// The warden that is to start it. The terminal is handed over at once if it is plainly meant for the command.
    pub(super) fn warden(
        command: &[OsString],
        containment: &Containment,
        terminal: Option<&Terminal>,
    ) -> Command {
        let mut warden = Command::new(OURSELVES);
        warden.arg("warden");
        match containment {
            Containment::Group => drop(warden.arg("--group")),
            Containment::Tree => {}
            Containment::Cgroup(folder) => drop(warden.arg("--cgroup").arg(folder)),
        }
        if terminal.is_some_and(Terminal::is_meant_for_the_command) {
            warden.arg("--foreground");
        }
        warden.arg("--").args(command);
        warden
    }

    /// Starts the warden and lets it start the command.
    pub(super) async fn start(mut warden: Command, containment: Containment) -> io::Result<Self> {
        if containment.adopts() {
            // If the warden is killed, whoever it had adopted is ours to kill.
            set_child_subreaper(Some(getpid()))?;
        }
        let (ours, its) = StdStream::pair()?;
        // It must not keep open what others wait to be closed.
        warden.stdin(Stdio::from(OwnedFd::from(its))).stdout(Stdio::null()).stderr(Stdio::null());
        let no_warden = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other(format!("{OURSELVES} is not there; is /proc mounted?"))
            }
            _ => error,
        };
        let process = warden.process_group(0).spawn().map_err(no_warden)?;
        // Or else it stays open in `warden`, and we would not notice that the process is gone.
        drop(warden);
        send_files(&ours)?;
        ours.set_nonblocking(true)?;
        let socket = UnixStream::from_std(ours)?;
        let pid = Pid::from_child(&process);
        let mut child = Self {
            pid,
            warden: process,
            containment,
            socket,
            received: Vec::new(),
            kill_at: None,
            has_ended: false,
        };
        match child.report().await {
            Some(Report::Started(pid)) => {
                child.pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
                Ok(child)
            }
            Some(Report::NotStarted(error)) => Err(error.into()),
            _ => Err(io::Error::other("the warden did not start")),
        }
    }

    pub(super) fn group(&self) -> Pid {
        self.pid
    }

    /// Signals the group. It is there until its warden is dismissed, even if everybody in it has ended.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Asks everybody to end.
    pub(super) fn terminate(&self) {
        for signal in [Signal::TERM, Signal::CONT] {
            self.containment.signal(self.root(), self.pid, signal);
        }
    }

    /// Ends everybody, at once.
    pub(super) fn kill(&self) {
        self.containment.kill(self.root(), self.pid);
        // It may be stopped, and has to tell us that the command has ended.
        let _ = kill_process(self.root(), Signal::CONT);
    }

    /// The warden is gone: ends whoever it had adopted, who are ours now.
    pub(super) fn kill_orphans(&self) {
        self.containment.kill(getpid(), self.pid);
    }

    /// Kill everybody then if we do not, unless told otherwise before.
    pub(super) fn kill_at(&mut self, at: Moment) {
        if self.kill_at.replace(at) != Some(at) {
            let nanos = u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX);
            self.tell(Order::KillAt(nanos));
        }
    }

    /// It is over. Whoever is left is on its own. Whether the warden has heard it yet is not waited for: it may be
    /// stopped, and reads all it was told before it acts.
    pub(super) fn dismiss(mut self) {
        self.tell(Order::Dismiss);
        self.containment.dissolve();
    }

    /// The next thing that happens to it. Dropping the future loses nothing.
    pub(super) async fn change(&mut self) -> Status {
        loop {
            match self.report().await {
                Some(Report::Ended(exit)) => {
                    self.has_ended = true;
                    return Status::Ended(exit);
                }
                Some(Report::Stopped(number)) => {
                    if let Some(signal) = Signal::from_named_raw(number) {
                        return Status::Stopped(signal);
                    }
                }
                Some(Report::Started(_) | Report::NotStarted(_)) => {}
                None => {
                    self.has_ended = true;
                    return Status::WardenGone;
                }
            }
        }
    }

    /// Returns when it has ended.
    pub(super) async fn ended(&mut self) {
        while !self.has_ended {
            self.change().await;
        }
    }

    /// Above everybody.
    fn root(&self) -> Pid {
        Pid::from_child(&self.warden)
    }

    /// If the warden is gone, that is seen by the next report.
    fn tell(&mut self, order: Order) {
        let _ = rustix::net::send(&self.socket, &order.write(), SendFlags::NOSIGNAL);
    }

    /// The next one; `None` if the warden is gone.
    async fn report(&mut self) -> Option<Report> {
        loop {
            if let Some(bytes) = self.received.first_chunk::<BYTES>().copied() {
                self.received.drain(..BYTES);
                return Report::read(bytes);
            }
            self.socket.readable().await.ok()?;
            let mut bytes = [0; 4 * BYTES];
            match self.socket.try_read(&mut bytes) {
                Ok(0) => return None,
                Ok(n) => self.received.extend(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}

/// The command is to have our standard files, not the warden's.
fn send_files(socket: &StdStream) -> io::Result<()> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let files = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let order = Order::Start.write();
    sendmsg(socket, &[io::IoSlice::new(&order)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
