//! The process of a peer, which is stopped when dropped, and its directory.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Time limit for a peer to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that listens on a port of this machine.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts `command`, and waits until it listens on `address`. Its output goes to a file in `folder`.
    pub(crate) fn start(command: Command, address: SocketAddr, folder: &Path) -> Self {
        let process = Self::begin(command, address, folder);
        process.wait_for_port(folder);
        process
    }

    /// Starts `command` like [`start`](Self::start), but does not wait until it listens.
    pub(crate) fn begin(mut command: Command, address: SocketAddr, folder: &Path) -> Self {
        let said = File::create(folder.join("said.log")).expect("a log");
        command.stdout(said.try_clone().expect("a file")).stderr(said);
        let program = command.get_program().to_owned();
        let child = command.spawn().unwrap_or_else(|error| panic!("{program:?}: {error}"));
        Self { child, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process listens.
    pub(crate) fn wait_for_port(&self, folder: &Path) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if TcpStream::connect(self.address).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = std::fs::read_to_string(folder.join("said.log")).unwrap_or_default();
        panic!("it never listened: {said}");
    }

    /// Interrupts the process and waits until it ends. Kills it if that takes too long.
    pub(crate) fn stop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns an address that is not in use.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// Creates an empty directory for a peer.
pub(crate) fn empty(data: &Path, name: &str) -> PathBuf {
    let folder = data.join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.canonicalize().expect("a folder")
}

/// Returns the command that runs this program as a peer.
pub(crate) fn this(role: &str, address: SocketAddr, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("peer").arg(role).arg(folder).env("PEER_ADDRESS", address.to_string());
    command
}

/// Returns the address on which this program listens as a peer.
pub(crate) fn given_address() -> SocketAddr {
    let address = std::env::var("PEER_ADDRESS").expect("an address");
    address.parse().expect("an address")
}
