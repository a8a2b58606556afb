//! (i) a long run, to see whether the rate stays the same and the files stay small.

use std::path::Path;

use super::Setting;
use crate::contest::Spread;
use crate::load::{self, Sample, Work};
use crate::peer::Leasehold;
use crate::report::Report;

const WINDOW_S: u64 = 10;
const N_CONNECTIONS: usize = 64;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let peer = Leasehold::start(&setting.data, &setting.binary);
    let folder = setting.data.join("leasehold/data");
    let n_windows = (setting.sustained_s / WINDOW_S).max(3) as usize;
    let progress = setting.progress("(i) long", n_windows);
    let (mut rates, mut all) = (Vec::new(), Sample::new());
    let mut largest = 0;
    for _ in 0..n_windows {
        let sample = load::run(&peer, N_CONNECTIONS, WINDOW_S as f64, Work::Cycle);
        rates.push(sample.rate());
        all.add(&sample);
        largest = largest.max(size(&folder));
        progress.inc(1);
    }
    progress.finish_and_clear();
    let Spread { median, min, max } = Spread::of(rates.clone());
    let thirds: Vec<_> = rates
        .chunks(rates.len().div_ceil(3))
        .map(|third| format!("{:.0}", Spread::of(third.to_vec()).median))
        .collect();
    let rows = vec![
        vec![
            "requests/s, median window (slowest..fastest)".into(),
            format!("{median:.0} ({min:.0}..{max:.0})"),
        ],
        vec!["medians of the first, second and last third".into(), thirds.join(", ")],
        vec![
            "cycle p50 / p99 / p99.9, ms".into(),
            format!("{:.2} / {:.2} / {:.2}", all.ms(0.5), all.ms(0.99), all.ms(0.999)),
        ],
        vec!["requests".into(), all.n_done.to_string()],
        vec!["files, largest together, MiB".into(), (largest >> 20).to_string()],
    ];
    let title = format!(
        "(i) {} s at {N_CONNECTIONS} connections, in windows of {WINDOW_S} s",
        n_windows as u64 * WINDOW_S
    );
    report.table(&title, &["", ""], rows);
    let ratio = min / median;
    report.at_least(
        "(i) slowest window, of the median",
        0.85,
        Spread { median: ratio, min: ratio, max: ratio },
    );
    report.at_most("(i) p99.9, of p99", 3.0, all.ms(0.999) / all.ms(0.99));
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|data| data.len()).sum()
}
