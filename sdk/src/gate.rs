//! The resource's side of fencing tokens: it rejects writes with a stale token.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Lets a write through only if no newer token was seen for the same resource.
///
/// A lease alone does not stop late writers: a process that is paused between checking its deadline and writing
/// writes too late. The resource has to reject that write by its token. Tokens increase with every grant, so the rule
/// is one comparison: *not older than the newest seen*. An equal token passes, because it is the same holder again.
///
/// The comparison and the write have to be one step. Otherwise two writers could pass in one order and write in the
/// other. Here the write is a closure that runs while the resource is locked.
///
/// This gate is in memory only. Data that survives the process needs a gate that survives too: keep the token in the
/// same database as the data and compare it in the same transaction, as `examples/fenced_sqlite.rs` does.
///
/// ```
/// use leasehold::FencingGate;
///
/// let gate = FencingGate::default();
/// let mut file = Vec::new();
/// assert_eq!(gate.write("report", 7, || file.push("seven")), Ok(()));
/// assert_eq!(gate.write("report", 8, || file.push("eight")), Ok(()));
/// let stale = gate.write("report", 7, || file.push("seven, late")).unwrap_err();
/// assert_eq!((stale.token, stale.newest), (7, 8));
/// assert_eq!(file, ["seven", "eight"]);
/// ```
#[derive(Debug, Default)]
pub struct FencingGate {
    resources: Mutex<HashMap<String, Arc<Resource>>>,
}

/// A protected resource, with one writer at a time.
#[derive(Debug, Default)]
struct Resource {
    newest: AtomicU64,
    writer: tokio::sync::Mutex<()>,
}

/// The error for a token older than the newest seen: its sender has lost the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The token of the rejected write.
    pub token: u64,
    /// The newest token seen.
    pub newest: u64,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {} is stale: {} was here already", self.token, self.newest)
    }
}

impl std::error::Error for Stale {}

impl FencingGate {
    /// Runs `write` unless `token` is older than the newest token seen for `resource`, and records the token. Writes
    /// to one resource run one after the other; writes to different resources do not delay each other. This blocks
    /// the thread. If you use [`write_async`](Self::write_async) for the same resource, use it everywhere for that
    /// resource.
    pub fn write<T>(
        &self,
        resource: &str,
        token: u64,
        write: impl FnOnce() -> T,
    ) -> Result<T, Stale> {
        let resource = self.resource(resource);
        let _alone = block_on(resource.writer.lock());
        resource.admit(token)?;
        Ok(write())
    }

    /// The async form of [`write`](Self::write). Dropping the future stops the write wherever it is. Older tokens are
    /// rejected as soon as the write starts.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let gate = leasehold::FencingGate::default();
    /// let written = gate.write_async("report", 7, async || "seven").await;
    /// assert_eq!(written, Ok("seven"));
    /// assert!(gate.write_async("report", 6, async || "six").await.is_err());
    /// # });
    /// ```
    pub async fn write_async<T>(
        &self,
        resource: &str,
        token: u64,
        write: impl AsyncFnOnce() -> T,
    ) -> Result<T, Stale> {
        let resource = self.resource(resource);
        let _alone = resource.writer.lock().await;
        resource.admit(token)?;
        Ok(write().await)
    }

    /// Rejects every older token from here on, without writing anything.
    pub fn raise(&self, resource: &str, token: u64) -> Result<(), Stale> {
        self.write(resource, token, || ())
    }

    /// Returns the newest token seen for a resource.
    pub fn newest(&self, resource: &str) -> Option<u64> {
        self.resources().get(resource).map(|resource| resource.newest.load(Ordering::Acquire))
    }

    /// Ignores poisoning: a panic while the map is locked cannot have left it half changed.
    fn resources(&self) -> MutexGuard<'_, HashMap<String, Arc<Resource>>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resource(&self, name: &str) -> Arc<Resource> {
        let mut all = self.resources();
        match all.get(name) {
            Some(resource) => resource.clone(),
            None => all.entry(name.into()).or_default().clone(),
        }
    }
}

impl Resource {
    /// Records the token. The caller must be the only writer.
    fn admit(&self, token: u64) -> Result<(), Stale> {
        let newest = self.newest.load(Ordering::Acquire);
        if token < newest {
            return Err(Stale { token, newest });
        }
        self.newest.store(token, Ordering::Release);
        Ok(())
    }
}

/// Blocks this thread, whether or not it belongs to a runtime, as a mutex does.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
