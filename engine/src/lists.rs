//! Lists and searches from the directory of locks.
//!
//! The first list copies all locks, a few in each turn of the writer. From then on, each list first copies the locks
//! that have changed since the list before, and then reads only the copy. So a list shows everything that was answered
//! before it was asked for.
//!
//! A new leader begins without a copy. If an answer of the writer is lost, the next one repeats it. While the copy is
//! large it is kept up to date, and it is dropped when no list has been asked for during [`UNUSED_MAX`].

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_auth::Permitted;
use leasehold_base::sync::lock;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::directory::{Directory, FoundLocks, ListNames, Model, SearchLocks, StopCollecting};
use super::error::Error;
use super::handle::{EngineHandle, Inner};
use super::read::{LOCKS_MAX, ListLocks, LockPage};

/// A copy of more locks than this is searched on a thread of its own, because others wait for the worker's thread.
const SMALL_MAX: usize = 10_000;
/// How often a large copy is kept up to date while no list is asked for, so that the next list has little to copy.
const KEPT_UP_EVERY: Duration = Duration::from_secs(1);
/// After so long without a list, a large copy is dropped.
const UNUSED_MAX: Duration = Duration::from_secs(600);

type Guard = OwnedMutexGuard<Model>;

impl EngineHandle {
    /// Finds and counts locks of all namespaces.
    pub async fn search(&self, ask: Permitted<SearchLocks>) -> Result<FoundLocks, Error> {
        let model = self.directory().await?;
        let search = ask.into_inner();
        let (found, _) = work(model, move |model| search.find(model)).await?;
        Ok(found)
    }

    /// Lists locks of one namespace. Lists by owner or state look only at locks that can match.
    pub async fn list(&self, ask: Permitted<ListLocks>) -> Result<LockPage, Error> {
        if ask.0.owner.is_none() && ask.0.standing.is_none() {
            return self.ask(ask).await;
        }
        let ListLocks(filter) = ask.into_inner();
        let model = self.directory().await?;
        let wanted = filter.clone();
        let (found, _) =
            work(model, move |model| model.names(&wanted, &wanted.view, LOCKS_MAX)).await?;
        let next = found.names.last().filter(|_| found.has_more).cloned();
        self.send((ListNames { filter, names: found.names, next }, None)).await
    }

    /// Returns the copy after everything was copied that had changed before.
    async fn directory(&self) -> Result<Guard, Error> {
        let directory = &self.0.directory;
        *lock(&directory.used_at) = Some(Instant::now());
        let model = self.refreshed().await?;
        if model.n_locks() > SMALL_MAX && !directory.is_kept_up.swap(true, Relaxed) {
            tokio::spawn(keep_up(Arc::downgrade(&self.0), Keeper(directory.clone())));
        }
        Ok(model)
    }

    async fn refreshed(&self) -> Result<Guard, Error> {
        let mut model = self.0.directory.model.clone().lock_owned().await;
        // What is marked after the first answer happened after the list was asked for.
        let mut n_left = None;
        let (began, mut is_copied) = (Instant::now(), false);
        loop {
            let changes = self.send((model.next_collection(), None)).await?;
            is_copied |= changes.is_fresh;
            let left = match n_left.filter(|_| !changes.is_fresh) {
                None => changes.n_left,
                Some(left) => changes.n_left.min(usize::saturating_sub(left, changes.n_taken())),
            };
            (_, model) = work(model, move |model| model.apply(changes)).await?;
            if left == 0 {
                if is_copied {
                    let (n_locks, n_bytes) = (model.n_locks(), model.n_bytes());
                    let took_ms = began.elapsed().as_millis() as u64;
                    tracing::debug!(n_locks, n_bytes, took_ms, "copied all locks for lists");
                }
                return Ok(model);
            }
            n_left = Some(left);
        }
    }
}

/// Works on the copy, on another thread if it is large.
async fn work<T: Send + 'static>(
    mut model: Guard,
    work: impl FnOnce(&mut Model) -> T + Send + 'static,
) -> Result<(T, Guard), Error> {
    if model.n_locks() <= SMALL_MAX {
        let done = work(&mut model);
        return Ok((done, model));
    }
    let done = tokio::task::spawn_blocking(move || {
        let done = work(&mut model);
        (done, model)
    });
    // It is cancelled only when the server stops.
    done.await.map_err(|_| Error::Stopping)
}

/// Lets another task keep the copy up to date when this one has ended.
struct Keeper(Arc<Directory>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.is_kept_up.store(false, Relaxed);
    }
}

/// Keeps the copy up to date until it is not used any more, and drops it then.
async fn keep_up(engine: Weak<Inner>, keeper: Keeper) {
    let Keeper(directory) = &keeper;
    loop {
        tokio::time::sleep(KEPT_UP_EVERY).await;
        let Some(engine) = engine.upgrade().map(EngineHandle) else { return };
        let used_at = *lock(&directory.used_at);
        let is_used = used_at.is_some_and(|at| at.elapsed() < UNUSED_MAX);
        // A server that follows has nothing to copy.
        if is_used && !engine.is_following() {
            // If this fails, so does the next list, which reports it.
            let _ = engine.refreshed().await;
            continue;
        }
        let mut model = directory.model.lock().await;
        model.clear();
        // If this fails, another server leads, and nothing is marked here.
        let _ = engine.send((StopCollecting, None)).await;
        return;
    }
}
