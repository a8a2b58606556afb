//! The machine on which the benchmark runs, and the speed of its disk.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::report::Report;

const N_SYNCS: usize = 200;

/// Adds the facts that a reader needs to judge the figures.
pub(crate) fn describe(report: &mut Report, data: &Path, binary: &str) {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown", |model| model.trim_start_matches(['\t', ' ', ':']));
    let n_cores = std::thread::available_parallelism().map_or(0, usize::from);
    report.fact("machine", format!("{n_cores} cores, {model}, Linux {}", said("uname", &["-r"])));
    let disk = said("findmnt", &["-no", "FSTYPE,OPTIONS", "--target", &data.to_string_lossy()]);
    let (p50, p99) = sync_micros(data);
    report.fact("disk", format!("{disk}; write + fdatasync p50 {p50} us, p99 {p99} us"));
    report.fact("leasehold", said(binary, &["--version"]));
    report.fact("redis", said("redis-server", &["--version"]));
    report.fact("etcd", said("etcd", &["--version"]));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|version| version.path()).max().unwrap_or_default();
    report.fact("postgres", said(&newest.join("bin/postgres").to_string_lossy(), &["--version"]));
}

/// Returns whether the directory is on a file system in memory, where durability costs nothing and means nothing.
pub(crate) fn is_in_memory(data: &Path) -> bool {
    let kind = said("findmnt", &["-no", "FSTYPE", "--target", &data.to_string_lossy()]);
    ["tmpfs", "ramfs"].contains(&kind.as_str())
}

/// Returns the resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number") * 1024
}

/// Returns the processor time of all threads of these processes, in seconds. Threads that have ended are not included.
pub(crate) fn processor_seconds(pids: &[u32]) -> f64 {
    let threads = pids.iter().flat_map(|pid| {
        std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process").flatten()
    });
    let nanos = threads.filter_map(|thread| {
        let said = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        said.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanos.sum::<u64>() as f64 / 1e9
}

/// Returns the first line that a program prints.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or("?").trim().into()
}

fn sync_micros(data: &Path) -> (u128, u128) {
    let path = data.join("sync-test");
    let mut file = File::create(&path).expect("a file");
    let mut micros: Vec<_> = (0..N_SYNCS)
        .map(|_| {
            let began = Instant::now();
            file.write_all(&[7; 512]).expect("written");
            file.sync_data().expect("synced");
            began.elapsed().as_micros()
        })
        .collect();
    let _ = std::fs::remove_file(path);
    micros.sort_unstable();
    (micros[N_SYNCS / 2], micros[N_SYNCS * 99 / 100])
}
