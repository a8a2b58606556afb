//! `leasehold run` with real processes, real signals and a real terminal.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

mod command;
mod contain;
mod flags;
mod interrupt;
mod loss;
mod places;
mod queue;
mod terminal;
mod waiting;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use leasehold::Moment;
use leasehold::clock::{BootClock, Clock};
use leasehold_testkit::{Process, TempDir, folder};
use rustix::process::{Pid, Signal, kill_process};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
/// The binary as a word of a shell command: its path can contain spaces.
const QUOTED: &str = concat!("'", env!("CARGO_BIN_EXE_leasehold"), "'");
/// Time limit for each step before a test fails.
const PATIENCE: Duration = Duration::from_secs(180);

/// A server, and a directory for the files that commands write.
struct World {
    server: Process,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        Self::with(&[])
    }

    /// Starts the server with these flags.
    fn with(flags: &[&str]) -> Self {
        let folder = folder();
        let server = Process::start(BINARY, &folder.path().join("data"), flags);
        Self { server, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns what commands have written to this file so far.
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Kills the server and starts one with the same data on another port, so that clients of the old server do not
    /// find the new one.
    fn replace_server(&mut self) {
        self.server.signal(Signal::KILL);
        self.server.wait();
        self.server = Process::start(BINARY, &self.file("data"), &[]);
    }

    /// Starts `leasehold run FLAGS -- sh -c SCRIPT` in the directory.
    fn run(&self, flags: &[&str], script: &str) -> Running {
        self.run_command(flags, &["sh", "-c", script])
    }

    fn run_command(&self, flags: &[&str], command: &[&str]) -> Running {
        let words = [flags, &["--"], command].concat();
        Running { child: self.leasehold_run(&words).spawn().expect("the binary") }
    }

    /// Returns the command `leasehold run WORDS` for the directory, without `LEASEHOLD_` variables from the
    /// environment.
    fn leasehold_run(&self, words: &[&str]) -> Command {
        let mut run = Command::new(BINARY);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEASEHOLD_")) {
            run.env_remove(name);
        }
        run.arg("run").args(words).current_dir(self.folder.path());
        run.env("LEASEHOLD_URL", format!("http://{}", self.server.address));
        run.stdin(Stdio::null());
        run
    }

    /// Runs the command until it ends, and returns its status, output and errors.
    fn ran(&self, words: &[&str]) -> (i32, String, String) {
        let output = self.leasehold_run(words).output().expect("the binary");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
    }

    fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if condition() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("never happened: {what}");
    }

    fn until_text(&self, file: &str, text: &str) {
        self.until(&format!("{text:?} in {file}"), || self.text(file).contains(text));
    }
}

/// A running `leasehold run`, killed when dropped.
struct Running {
    child: Child,
}

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is there");
    }

    fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    fn wait(mut self) -> ExitStatus {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("it did not end");
    }

    /// Returns the status as a shell reports it: 128 plus the number of the signal that ended the process.
    fn code(self) -> Option<i32> {
        let status = self.wait();
        status.code().or_else(|| status.signal().map(|number| 128 + number))
    }

    /// Returns the only child process: the warden, which started the command.
    fn warden(&self) -> Pid {
        let ours = self.pid().as_raw_nonzero().get();
        let all = std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            (parent(pid)? == ours).then_some(pid)
        });
        let wardens: Vec<_> = all.filter_map(Pid::from_raw).collect();
        assert_eq!(wardens.len(), 1);
        wardens[0]
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the fields of `/proc/PID/stat` after the name, which can contain any character.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text =
        std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(Into::into).collect())
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid)?[1].parse().ok()
}

/// Returns whether the process exists and is not a zombie.
fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] != "Z")
}

fn now() -> Moment {
    BootClock.now()
}
