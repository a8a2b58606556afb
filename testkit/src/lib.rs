//! Helpers for tests: an HTTP client, servers in this process and in others, and a terminal.

mod bare;
mod certificates;
mod client;
pub mod cluster;
mod damage;
mod etcd;
pub mod fake;
mod faulty;
mod guarded;
mod hosts;
mod local;
mod port;
mod process;
mod seed;
mod terminal;
pub mod walk;

pub use bare::Bare;
pub use certificates::{Ca, Issued};
pub use client::{Broken, Client, Response};
pub use damage::{Damages, copy_store};
pub use etcd::{Etcd, EtcdOptions, SlowDisks};
pub use faulty::{Faults, FaultyStore};
pub use guarded::Guarded;
pub use hosts::{Host, among_hosts};
pub use hyper::Method;
pub use local::{Local, settings};
pub use port::{ReservedPort, nowhere};
pub use process::{Process, wrapped};
pub use rustix::process::Signal;
pub use seed::seed;
pub use serde_json::{Value, json};
pub use tempfile::TempDir;
pub use terminal::Terminal;

/// Returns a temporary directory that is deleted after the test. It is on a real disk if the system's temporary files
/// are.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}
