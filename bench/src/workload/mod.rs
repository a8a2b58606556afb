//! The workloads. Each one adds its tables and goals to the report.

mod cluster;
mod expiry;
mod hot;
mod lists;
mod million;
mod polling;
mod rates;
mod renew;
mod resp;
mod secured;
mod sustained;

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};

use crate::contest::Pace;
use crate::report::Report;

/// The settings of a run.
pub(crate) struct Setting {
    pub(crate) pace: Pace,
    pub(crate) connections: Vec<usize>,
    /// Number of held locks in the workloads that hold a million by default.
    pub(crate) n_held: usize,
    /// Duration of the sustained run, in seconds.
    pub(crate) sustained_s: u64,
    /// Data directory of the peers, on a real disk.
    pub(crate) data: PathBuf,
    /// Server binary to measure.
    pub(crate) binary: String,
    /// Another build of the server.
    pub(crate) rival: Option<String>,
    /// The peers that take part in (a); empty means all.
    pub(crate) peers: Vec<String>,
    /// Directory for the chart.
    pub(crate) out: PathBuf,
}

impl Setting {
    pub(crate) fn progress(&self, what: &str, n_steps: usize) -> ProgressBar {
        let style =
            ProgressStyle::with_template("{prefix:10} {bar:30} {pos}/{len} {eta:>5}  {msg}");
        let bar = ProgressBar::new(n_steps as u64).with_prefix(what.to_owned());
        bar.with_style(style.expect("a template that makes sense"))
    }
}

type Run = fn(&Setting, &mut Report);

/// The workloads by letter, as in docs/internals/benchmark-method.md.
pub(crate) const ALL: [(&str, Run); 11] = [
    ("a", rates::run),
    ("b", hot::run),
    ("c", renew::run),
    ("d", million::run),
    ("e", polling::run),
    ("h", expiry::run),
    ("i", sustained::run),
    ("j", resp::run),
    ("k", cluster::run),
    ("l", secured::run),
    ("m", lists::run),
];
