//! What is measured. Each workload adds its tables and targets to the report.

mod cluster;
mod expiry;
mod hot;
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

/// What a workload is told.
pub(crate) struct Setting {
    pub(crate) pace: Pace,
    pub(crate) connections: Vec<usize>,
    /// How many locks are held where there should be a million.
    pub(crate) n_held: usize,
    /// How long the sustained run lasts, in seconds.
    pub(crate) sustained_s: u64,
    /// On a real disk.
    pub(crate) data: PathBuf,
    /// The server to measure.
    pub(crate) binary: String,
    /// Another build of it.
    pub(crate) rival: Option<String>,
    /// Who takes part in (a); empty: everybody.
    pub(crate) peers: Vec<String>,
    /// Where the chart goes.
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
pub(crate) const ALL: [(&str, Run); 10] = [
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
];
