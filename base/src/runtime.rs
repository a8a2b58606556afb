//! The tokio runtimes of a server, with a limit on their threads.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Maximum threads of one runtime for blocking work: files, history queries and name lookups.
///
/// Further work waits for a free thread. This cannot deadlock, because blocking work never waits for other
/// blocking work: turns, slots and permits are acquired before it starts.
pub const BLOCKING_THREADS_MAX: usize = 8;

/// Builds a runtime that runs its tasks on the current thread.
pub fn on_this_thread() -> io::Result<Runtime> {
    bounded(&mut Builder::new_current_thread())
}

/// Builds a runtime with the limit on its blocking threads.
pub fn bounded(builder: &mut Builder) -> io::Result<Runtime> {
    builder.enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).build()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;
    use std::sync::{Arc, RwLock};
    use std::thread;

    use super::*;

    /// Threads in addition to the workers: the main thread, those of the store, and their blocking threads.
    const OTHERS: usize = 40;

    /// Without the limit, each task would get its own thread as long as no thread has ended.
    #[test]
    fn blocking_work_shares_a_few_threads() {
        let runtime = on_this_thread().expect("a runtime");
        let gate = Arc::new(RwLock::new(()));
        let closed = gate.write().expect("the gate");
        let mut tasks = Vec::new();
        for _ in 0..10 * BLOCKING_THREADS_MAX {
            let gate = gate.clone();
            tasks.push(runtime.spawn_blocking(move || {
                drop(gate.read());
                thread::current().id()
            }));
        }
        drop(closed);
        let ids = tasks.into_iter().map(|task| runtime.block_on(task).expect("it ends"));
        let ids: HashSet<_> = ids.collect();
        assert!(ids.len() <= BLOCKING_THREADS_MAX, "{ids:?}");
    }

    #[test]
    fn the_systemd_unit_allows_the_threads_of_a_server_on_a_hundred_processors() {
        let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/deb/leasehold.service");
        let unit = std::fs::read_to_string(unit).expect("the unit");
        let tasks = unit.lines().find_map(|line| line.strip_prefix("TasksMax="));
        let tasks: usize = tasks.and_then(|n| n.parse().ok()).expect("a number");
        assert!(tasks >= OTHERS + 100 * (1 + BLOCKING_THREADS_MAX), "{tasks}");
    }
}
