//! The other side of a fencing token: what is protected refuses what is stale.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Lets a write through only if no newer token was seen for the same resource.
///
/// A lease alone excludes nobody: whoever is paused between looking at its deadline and writing writes too late.
/// What is written to has to turn it away, by the token that came with the write. Tokens grow with every grant, so
/// the rule is one comparison: *not older than the newest seen*. Equal is fine: that is the same holder again.
///
/// The comparison and the write have to be one step, or two writers can pass in one order and write in the other.
/// Here the write is a closure that runs while the resource is locked.
///
/// This gate forgets with its process. What outlives the process needs a gate that does too: keep the token in
/// the same database as the data and compare it in the same transaction, as `examples/fenced_sqlite.rs` does.
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

/// What is written to, one writer at a time.
#[derive(Debug, Default)]
struct Resource {
    newest: AtomicU64,
    writer: tokio::sync::Mutex<()>,
}

/// A newer token was seen: whoever sent this one has lost its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The one that came.
    pub token: u64,
    /// The newest seen.
    pub newest: u64,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {} is stale: {} was here already", self.token, self.newest)
    }
}

impl std::error::Error for Stale {}

impl FencingGate {
    /// Runs `write` if `token` is not older than the newest seen for `resource`, which it then is. Writes to one
    /// resource go one after the other; others are not held up. It blocks its thread meanwhile: where
    /// [`write_async`](Self::write_async) is used for the same resource, use that.
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

    /// The same for a write that has to wait for something. Dropping the future stops the write wherever it is; older
    /// tokens are refused from its start on.
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

    /// Lets every older token be refused from here on, without writing anything.
    pub fn raise(&self, resource: &str, token: u64) -> Result<(), Stale> {
        self.write(resource, token, || ())
    }

    /// The newest token seen.
    pub fn newest(&self, resource: &str) -> Option<u64> {
        self.resources().get(resource).map(|resource| resource.newest.load(Ordering::Acquire))
    }

    /// A panic with the map locked cannot have left it half changed.
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
    /// Only for whoever writes alone.
    fn admit(&self, token: u64) -> Result<(), Stale> {
        let newest = self.newest.load(Ordering::Acquire);
        if token < newest {
            return Err(Stale { token, newest });
        }
        self.newest.store(token, Ordering::Release);
        Ok(())
    }
}

/// Blocks this thread, whether it belongs to a runtime or not, as a mutex does.
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
