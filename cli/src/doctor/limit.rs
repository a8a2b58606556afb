//! Checks the limits of the system: open files, memory, and the clock source.

use std::fs;

use leasehold_server::http;
use leasehold_server::serve::{Settings, files_needed};

use super::finding::Finding;

/// Clock sources that are read without a call to the kernel or to the hypervisor.
const QUICK_CLOCKS: [&str; 6] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
    "xen",
    "riscv_clocksource",
];

/// Returns the maximum number of open files for this process, if there is a limit.
pub(super) fn n_files_max() -> Option<u64> {
    // A server raises its soft limit to the hard limit.
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum
}

pub(super) fn files(n_max: Option<u64>, http: &http::Options) -> Finding {
    let needed = files_needed(http) as u64;
    match n_max {
        Some(n) if n < needed => Finding::problem(
            "files",
            format!(
                "the limit is {n} open files, and the server can need {needed} (connections-max)"
            ),
            format!(
                "raise the limit (LimitNOFILE={needed} in the unit, ulimit -n), or lower --connections-max"
            ),
        ),
        Some(n) => Finding::fine("files", format!("limit {n}, needs up to {needed}")),
        None => Finding::fine("files", "the limit is high enough"),
    }
}

/// Returns the memory of the machine, or the limit of our control group if that is less.
pub(super) fn memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group =
        group.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::")));
    let limits = group.into_iter().flat_map(|path| {
        std::path::Path::new(path)
            .ancestors()
            .map(|path| format!("/sys/fs/cgroup{}/memory.max", path.display()))
            .collect::<Vec<_>>()
    });
    let limits = limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.chain(machine).min()
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

pub(super) fn memory(bytes: Option<u64>, settings: &Settings) -> Finding {
    let limits = &settings.engine.limits;
    let budgets = [
        limits.metadata_total_bytes_max,
        limits.names_total_bytes_max,
        limits.requests_total_bytes_max,
        limits.queues_total_bytes_max,
        limits.ended_total_bytes_max,
        settings.http.answers_bytes_max,
        settings.http.heads_total_bytes_max,
    ];
    let needed = budgets.into_iter().fold(0, |all: u64, n| all.saturating_add(n as u64));
    let mib = |n: u64| n >> 20;
    match bytes {
        Some(bytes) if bytes < needed => Finding::warning(
            "memory",
            format!(
                "this machine has {} MiB, but clients can use {} MiB (the *-total-bytes-max budgets)",
                mib(bytes),
                mib(needed)
            ),
            "lower --names-total-bytes-max, --metadata-total-bytes-max and the other budgets, or add memory",
        ),
        Some(bytes) => Finding::fine(
            "memory",
            format!("{} MiB; clients can use {} MiB", mib(bytes), mib(needed)),
        ),
        None => {
            Finding::fine("memory", format!("size unknown; clients can use {} MiB", mib(needed)))
        }
    }
}

/// Returns the name of Linux's current clock source.
pub(super) fn clock_source() -> Option<String> {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

pub(super) fn clock(source: Option<&str>) -> Finding {
    match source {
        Some(name) if QUICK_CLOCKS.contains(&name) => {
            Finding::fine("clock", format!("the clock source is {name}"))
        }
        Some(name) => Finding::warning(
            "clock",
            format!("the clock source is {name}: reading the clock takes about a microsecond"),
            "if the processor has a stable time stamp counter, boot with clocksource=tsc",
        ),
        None => Finding::fine("clock", "the clock source is unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn connections_are_files() {
        let http = http::Options { workers: 2, ..http::Options::default() };
        assert_eq!(files(Some(1024), &http).verdict, Verdict::Problem);
        let needed = format!("LimitNOFILE={}", files_needed(&http));
        assert!(files(Some(1024), &http).advice.is_some_and(|advice| advice.contains(&needed)));
        assert!(files_needed(&http) > http.connections_max + http.downloads_max);
        assert_eq!(files(Some(65_536), &http).verdict, Verdict::Fine);
        assert_eq!(files(None, &http).verdict, Verdict::Fine);
    }

    #[test]
    fn budgets_fit_into_the_memory_there_is() {
        let settings = leasehold_testkit::settings(None);
        assert_eq!(memory(Some(512 << 20), &settings).verdict, Verdict::Warning);
        assert_eq!(memory(Some(4 << 30), &settings).verdict, Verdict::Fine);
        assert_eq!(memory(None, &settings).verdict, Verdict::Fine);
        assert_eq!(meminfo("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(meminfo(""), None);
    }

    #[test]
    fn a_slow_clock_is_told() {
        assert_eq!(clock(Some("tsc")).verdict, Verdict::Fine);
        assert_eq!(clock(Some("hpet")).verdict, Verdict::Warning);
        assert_eq!(clock(None).verdict, Verdict::Fine);
    }
}
