//! The runtimes of a server, and how many threads each may have.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Most threads of one runtime for work that blocks: it reads and writes files, queries history, looks up names.
///
/// What is beyond that waits for a free thread. No such work waits for other work on these threads: turns, places and
/// permits are taken before it begins.
pub const BLOCKING_THREADS_MAX: usize = 8;

/// A runtime that runs tasks on the thread it is given.
pub fn on_this_thread() -> io::Result<Runtime> {
    bounded(&mut Builder::new_current_thread())
}

/// A runtime with the bound on its threads.
pub(crate) fn bounded(builder: &mut Builder) -> io::Result<Runtime> {
    builder.enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).build()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;
    use std::sync::{Arc, RwLock};
    use std::thread;

    use super::*;

    /// Threads beside those of the workers: the main one, those of the store and of etcd, and what blocks beside them.
    const OTHERS: usize = 40;

    /// Without the bound, each task gets a thread as long as none has ended.
    #[test]
    fn much_work_that_blocks_shares_a_few_threads() {
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
    fn the_unit_allows_as_many_threads_as_a_server_on_a_hundred_processors_has() {
        let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/deb/leasehold.service");
        let unit = std::fs::read_to_string(unit).expect("the unit");
        let tasks = unit.lines().find_map(|line| line.strip_prefix("TasksMax="));
        let tasks: usize = tasks.and_then(|n| n.parse().ok()).expect("a number");
        assert!(tasks >= OTHERS + 100 * (1 + BLOCKING_THREADS_MAX), "{tasks}");
    }
}
