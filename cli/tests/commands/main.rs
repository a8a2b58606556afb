//! The commands for scripts and people, against the real server process.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod completion;
mod doctor;
mod escape;
mod full;
mod lease;
mod load;
mod look;
mod odd;
mod pages;
mod revoke;
mod session;
mod several;
mod terminal;
mod watch;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use leasehold_testkit::{Process, TempDir, Value, folder};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
/// Time limit for each step before a test fails.
const PATIENCE: Duration = Duration::from_secs(180);

/// A server, and a directory for the test.
struct World {
    server: Process,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        Self::with(&["--ephemeral"])
    }

    fn with(flags: &[&str]) -> Self {
        let folder = folder();
        let server = Process::start(BINARY, &folder.path().join("data"), flags);
        Self { server, folder }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Returns the command `leasehold` with these arguments, for this server.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("LEASEHOLD_URL", self.url());
        command
    }

    /// Runs the command until it ends.
    fn leasehold(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments).output().expect("the binary"))
    }

    /// Runs the command, which must succeed, and returns its JSON output.
    fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.leasehold(&[arguments, &["--json"]].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.json()
    }
}

/// Returns the command `leasehold` with these arguments, without `LEASEHOLD_` variables from the environment.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEASEHOLD_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The exit status and output of a command.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let code = output.status.code().expect("no signal");
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Returns the first line of the output as JSON.
    fn json(&self) -> Value {
        let line = self.out.lines().next().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the rows of a table, without the headings.
    fn rows(&self) -> Vec<Vec<&str>> {
        self.out.lines().skip(1).map(|line| line.split_whitespace().collect()).collect()
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
