//! Giving back what is dropped, also when no runtime is left to do it.
//!
//! A guard that is dropped inside of a runtime is given back by a task. At the end of `#[tokio::main]` that task is
//! itself dropped before it gets to do anything, and without a runtime there is no task at all: then it is done on a
//! thread of its own, for which the drop waits, but not for long.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::Client;

/// How long a drop may block.
const BLOCKED_MAX: Duration = Duration::from_secs(1);
/// After one that took too long the next ones are not waited for.
const IMPATIENT_FOR: Duration = Duration::from_secs(10);

/// When a drop last blocked for as long as it may.
static BLOCKED_AT: Mutex<Option<Instant>> = Mutex::new(None);

/// Something to be given back.
pub(crate) trait GiveBack: Send + 'static {
    /// Gives it back by way of `client`.
    fn give_back(&self, client: &Client) -> impl Future<Output = ()> + Send;
    /// The client it came from.
    fn client(&self) -> &Client;
}

/// Gives it back, in the background if there is a runtime.
pub(crate) fn say<T: GiveBack + Sync>(what: T) {
    let farewell = Farewell(Some(what));
    if let Ok(runtime) = Handle::try_current() {
        // A runtime that is shutting down drops it, and so does the end of this function without one.
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
    // Not on this thread: it may belong to a runtime, and then it must not run another.
    let thread = std::thread::Builder::new().name("leasehold-release".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            // The client's connections belong to a runtime that may be gone.
            let client = what.client().reconnected();
            let given_back =
                async { tokio::time::timeout(BLOCKED_MAX, what.give_back(&client)).await };
            let _ = runtime.block_on(given_back);
        }
        let _ = done.send(());
    });
    let blocked_at = || BLOCKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_impatient = blocked_at().is_some_and(|at| at.elapsed() < IMPATIENT_FOR);
    if thread.is_ok() && !is_impatient && is_done.recv_timeout(BLOCKED_MAX).is_err() {
        *blocked_at() = Some(Instant::now());
    }
}
