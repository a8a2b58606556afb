//! The command as `run` controls it: through the warden, which is the command's parent process.

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

/// The running binary, even if its file was replaced or deleted since it started.
pub(super) const OURSELVES: &str = "/proc/self/exe";

/// A running command. It leads its own process group.
pub(super) struct Child {
    pid: Pid,
    warden: Process,
    containment: Containment,
    socket: UnixStream,
    /// Bytes read from the warden that do not yet form a whole report.
    received: Vec<u8>,
    /// The kill time last sent to the warden.
    kill_at: Option<Moment>,
    has_ended: bool,
}

/// A change in the command's state.
pub(super) enum Status {
    Ended(Exit),
    /// The command was stopped by this signal.
    Stopped(Signal),
    /// The warden was killed, and the system killed the command.
    WardenGone,
}

/// How the command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    /// The command exited with this status.
    Code(u8),
    /// The signal with this number ended the command.
    Signal(i32),
}

impl Child {
    /// Builds the warden's command line. `--foreground` gives the command the terminal as soon as it starts, if the
    /// terminal is clearly meant for it.
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

    /// Starts the warden, which then starts the command.
    pub(super) async fn start(mut warden: Command, containment: Containment) -> io::Result<Self> {
        if containment.adopts() {
            // If the warden is killed, the processes that it had adopted become children of `run`, which kills them.
            set_child_subreaper(Some(getpid()))?;
        }
        let (ours, its) = StdStream::pair()?;
        // The warden must not keep our output open: a pipe's reader waits until every copy of it is closed.
        warden.stdin(Stdio::from(OwnedFd::from(its))).stdout(Stdio::null()).stderr(Stdio::null());
        let no_warden = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other(format!("{OURSELVES} does not exist; is /proc mounted?"))
            }
            _ => error,
        };
        let process = warden.process_group(0).spawn().map_err(no_warden)?;
        // `warden` holds the other end of the socket. Unless it is closed, we would not notice that the process is
        // gone.
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

    /// Signals the process group. The group exists until the warden is dismissed, even if all its processes have ended.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Requests the command and its descendants to end, with SIGTERM.
    pub(super) fn terminate(&self) {
        for signal in [Signal::TERM, Signal::CONT] {
            self.containment.signal(self.root(), self.pid, signal);
        }
    }

    /// Kills the command and its descendants immediately.
    pub(super) fn kill(&self) {
        self.containment.kill(self.root(), self.pid);
        // The warden might be stopped, and has to report that the command has ended.
        let _ = kill_process(self.root(), Signal::CONT);
    }

    /// Kills the processes that the warden had adopted. The warden is gone, so they are now children of `run`.
    pub(super) fn kill_orphans(&self) {
        self.containment.kill(getpid(), self.pid);
    }

    /// Sets the time at which the warden kills the command, unless a later order changes it.
    pub(super) fn kill_at(&mut self, at: Moment) {
        if self.kill_at.replace(at) != Some(at) {
            let nanos = u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX);
            self.tell(Order::KillAt(nanos));
        }
    }

    /// Dismisses the warden; processes that are still running are left alone. Does not wait for the warden to read the
    /// order: it might be stopped, and reads all pending orders before it acts.
    pub(super) fn dismiss(mut self) {
        self.tell(Order::Dismiss);
        self.containment.dissolve();
    }

    /// Returns the next change in the command's state. Cancel-safe: dropping the future loses nothing.
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

    /// Returns when the command has ended.
    pub(super) async fn ended(&mut self) {
        while !self.has_ended {
            self.change().await;
        }
    }

    /// Returns the warden: the ancestor of all processes of the command.
    fn root(&self) -> Pid {
        Pid::from_child(&self.warden)
    }

    /// Sends an order to the warden. A send error is ignored: if the warden is gone, the next [`report`](Self::report)
    /// returns `None`.
    fn tell(&mut self, order: Order) {
        let _ = rustix::net::send(&self.socket, &order.write(), SendFlags::NOSIGNAL);
    }

    /// Returns the warden's next report, or `None` if the warden is gone.
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

/// Sends our standard input, output and error to the warden, which passes them to the command.
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
