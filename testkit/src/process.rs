//! A server in a separate process, which can be stopped, killed and started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::port::ReservedPort;

/// How long a server may take to start or to end before a test gives up.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running `leasehold serve`. Dropping this value kills it.
pub struct Process {
    child: Child,
    /// The address on which it listens.
    pub address: SocketAddr,
    /// A client of the server.
    pub client: Client,
    /// So that it can be started again on the same port.
    _port: Option<ReservedPort>,
}

impl Process {
    /// Starts `binary serve` on a free port with its data in `data` and these flags.
    pub fn start(binary: &str, data: &Path, flags: &[&str]) -> Self {
        Self::try_start(binary, data, flags).unwrap_or_else(|why| panic!("it did not start: {why}"))
    }

    /// Tries to start a server. Returns its output if it ends instead of listening.
    pub fn try_start(binary: &str, data: &Path, flags: &[&str]) -> Result<Self, String> {
        let port_file = unique(data);
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data").arg(data);
        let told: Option<SocketAddr> =
            flags.iter().find_map(|flag| flag.strip_prefix("--listen=")?.parse().ok());
        let port = match told {
            None if flags.iter().any(|flag| flag.starts_with("--listen")) => None,
            None => Some(ReservedPort::any()),
            Some(told) if told.port() == 0 => None,
            Some(told) => ReservedPort::of(told).ok(),
        };
        if let (None, Some(port)) = (told, &port) {
            command.arg(format!("--listen={}", port.address));
        }
        command.arg("--port-file").arg(&port_file).args(flags);
        // Makes the tests independent of the free space on this machine's disk.
        for name in ["FREE_SPACE_MIN", "DISK_RESERVE", "DISK_FREE_MIN"] {
            command.env(format!("LEASEHOLD_{name}"), "0");
        }
        let mut child = spawn(command.stderr(Stdio::piped()));
        let number = wait_for_port(&mut child, &port_file)?;
        // The test no longer reads the pipe. A full pipe must not stop the server.
        if let Some(mut stderr) = child.stderr.take() {
            std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        }
        let address = match told {
            Some(told) if !told.ip().is_unspecified() => SocketAddr::new(told.ip(), number),
            _ => SocketAddr::from(([127, 0, 0, 1], number)),
        };
        Ok(Self { child, address, client: Client::new(address), _port: port })
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it is there");
    }

    /// Kills it with SIGKILL, and waits for its end.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGTERM. Returns the exit status.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits until it ends on its own.
    pub fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("it did not end");
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a command. A program that was just written might still be open in a child process that another thread is
/// starting, so this is repeated.
fn spawn(command: &mut Command) -> Child {
    let began = Instant::now();
    loop {
        match command.spawn() {
            Err(error)
                if error.kind() == std::io::ErrorKind::ExecutableFileBusy
                    && began.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            spawned => return spawned.expect("the binary"),
        }
    }
}

/// Writes a program to `folder` that runs `binary` after the words `before`, with any arguments.
pub fn wrapped(folder: &Path, before: &str, binary: &str) -> String {
    let path = folder.join("wrapper");
    std::fs::create_dir_all(folder).expect("a folder");
    std::fs::write(&path, format!("#!/bin/sh\n{before} \"{binary}\" \"$@\"\n")).expect("a file");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, executable).expect("its owner");
    path.to_str().expect("text").into()
}

fn unique(data: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static N: AtomicU64 = AtomicU64::new(0);
    let name = format!("port-{}-{}", std::process::id(), N.fetch_add(1, Relaxed));
    data.with_file_name(name)
}

fn wait_for_port(child: &mut Child, port_file: &Path) -> Result<u16, String> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Ok(text) = std::fs::read_to_string(port_file) {
            let _ = std::fs::remove_file(port_file);
            return text.trim().parse().map_err(|_| format!("no port: {text}"));
        }
        if child.try_wait().expect("a child").is_some() {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
            }
            return Err(said);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err("it never listened".into())
}
