//! The data directory: used by one server, accessible only to its owner, and either complete or refused if its creation
//! was interrupted.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they did"
)]

mod backups;
mod fold;
mod interrupted;
mod read_only;
mod recovered;
mod rights;
mod time;
mod twice;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasehold_core::Limits;
use leasehold_store::sqlite::{Options, Space, SqliteStore};
use leasehold_store::{Loaded, Store};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

/// Runs a command, and returns whether it succeeded and what it printed.
fn leasehold(args: &[&str]) -> (bool, String) {
    outcome(Command::new(BINARY).args(args))
}

fn outcome(command: &mut Command) -> (bool, String) {
    let output = command.output().expect("the binary");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Returns the state that a server would start with, or the error.
fn start(data: &Path) -> Result<Loaded, String> {
    let fold_interval = Duration::from_secs(3600);
    let (history, space) = (Default::default(), Space::unwatched());
    SqliteStore::open(Options { data: data.into(), fold_interval, history, space })
        .and_then(|mut store| store.load(Limits::default(), 1))
        .map_err(|error| error.to_string())
}

/// Returns the files in a directory with their content.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = files.filter(|file| file.file_type().unwrap().is_file());
    let name = |file: &std::fs::DirEntry| file.file_name().into_string().unwrap();
    files.map(|file| (name(&file), std::fs::read(file.path()).unwrap())).collect()
}

/// Returns the words that start a command in separate namespaces, with all permissions in them.
fn unshare(namespaces: &str) -> String {
    match rustix::process::geteuid().is_root() {
        true => format!("unshare {namespaces}"),
        false => format!("unshare --user --map-root-user {namespaces}"),
    }
}
