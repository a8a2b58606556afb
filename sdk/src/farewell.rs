//! Releases leases whose guard was dropped, even if no runtime is left to do it.
//!
//! If a guard is dropped inside a runtime, a task releases its lease. At the end of `#[tokio::main]`, the runtime
//! drops that task before it can run, and without a runtime there is no task at all. In both cases a separate thread
//! releases the lease, and the drop waits for that thread, but not for long.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::Client;

/// Maximum time that a drop can block.
const BLOCKED_MAX: Duration = Duration::from_secs(1);
/// How long later drops do not block, after one took too long.
const IMPATIENT_FOR: Duration = Duration::from_secs(10);

/// When a drop last blocked for the maximum time.
static BLOCKED_AT: Mutex<Option<Instant>> = Mutex::new(None);

/// Something to release.
pub(crate) trait GiveBack: Send + 'static {
    /// Releases it through `client`.
    fn give_back(&self, client: &Client) -> impl Future<Output = ()> + Send;
    /// Returns the client that acquired it.
    fn client(&self) -> &Client;
}

/// Releases it, in the background if there is a runtime.
pub(crate) fn say<T: GiveBack + Sync>(what: T) {
    let farewell = Farewell(Some(what));
    if let Ok(runtime) = Handle::try_current() {
        // If the runtime is shutting down, it drops the future. Dropping it, there or below, blocks on the release.
        runtime.spawn(farewell.say());
    }
}

struct Farewell<T: GiveBack + Sync>(Option<T>);

impl<T: GiveBack + Sync> Farewell<T> {
    async fn say(mut self) {
        if let Some(what) = &self.0 {
            what.give_back(what.client()).await;
        }
        self.0 = None;
    }
}

impl<T: GiveBack + Sync> Drop for Farewell<T> {
    fn drop(&mut self) {
        if let Some(what) = self.0.take() {
            block_on_release(what);
        }
    }
}

fn block_on_release<T: GiveBack>(what: T) {
    let (done, is_done) = mpsc::channel();
    // A separate thread, because this one might belong to a runtime, and then it cannot run another.
    let thread = std::thread::Builder::new().name("leasehold-release".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            // The client's connections belong to a runtime that might no longer exist.
            let client = what.client().reconnected();
            let released =
                async { tokio::time::timeout(BLOCKED_MAX, what.give_back(&client)).await };
            let _ = runtime.block_on(released);
        }
        let _ = done.send(());
    });
    let blocked_at = || BLOCKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_impatient = blocked_at().is_some_and(|at| at.elapsed() < IMPATIENT_FOR);
    if thread.is_ok() && !is_impatient && is_done.recv_timeout(BLOCKED_MAX).is_err() {
        *blocked_at() = Some(Instant::now());
    }
}
