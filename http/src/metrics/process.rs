//! Metrics of the process, under the names that all Prometheus client libraries use.

use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use leasehold_engine::metrics::Book;

/// The gauges, updated when metrics are read.
pub(super) struct Process {
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge,
    open_files: Gauge,
    n_threads: Gauge,
}

impl Process {
    pub(super) fn register(book: &mut Book) -> Self {
        let started = Gauge::<f64, AtomicU64>::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        started.set(now.as_secs_f64());
        let max_files = Gauge::<i64>::default();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        max_files.set(limit.current.map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX)));
        let this = Self {
            cpu: Counter::default(),
            resident: Gauge::default(),
            open_files: Gauge::default(),
            n_threads: Gauge::default(),
        };
        book.add("process_cpu_seconds", "Processor time used", this.cpu.clone());
        book.add("process_resident_memory_bytes", "Memory in use", this.resident.clone());
        book.add("process_open_fds", "Open files, including connections", this.open_files.clone());
        book.add("process_max_fds", "Maximum number of open files", max_files);
        book.add("process_threads", "Threads", this.n_threads.clone());
        book.add(
            "process_start_time_seconds",
            "Start time of the process, in seconds since 1970",
            started,
        );
        this
    }

    /// Updates the gauges. Values that the system does not report stay unchanged.
    pub(super) fn observe(&self) {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let used = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
        self.cpu.inc_by((used - self.cpu.get()).max(0.0));
        if let Some((resident, n_threads)) = status() {
            self.resident.set(resident);
            self.n_threads.set(n_threads);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            // One descriptor is the directory itself while it is read.
            self.open_files.set(files.count().saturating_sub(1) as i64);
        }
    }
}

/// Returns the memory in bytes and the number of threads, from `/proc/self/status`.
fn status() -> Option<(i64, i64)> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<i64>().ok()
    };
    Some((number("VmRSS:")?.saturating_mul(1024), number("Threads:")?))
}
