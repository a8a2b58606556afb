//! A thread that works next to the writer, and the state that they share.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leasehold_base::pace::{self, Handle};
use leasehold_base::sync::lock;

use crate::Error;

/// A worker thread. Dropping this value ends it.
pub(crate) struct Aide<S> {
    shared: Arc<Shared<S>>,
    thread: Option<Handle<()>>,
}

/// The state that the writer and the thread share.
pub(crate) struct Shared<S> {
    inner: Mutex<Inner<S>>,
}

/// The outcome of a wait.
pub(crate) enum Waited<T> {
    /// There is work, described by this value.
    Found(T),
    /// The time limit passed without any work.
    InVain,
    /// The thread is to end.
    Over,
}

pub(crate) struct Inner<S> {
    is_over: bool,
    state: S,
}

impl<S> Deref for Inner<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.state
    }
}

impl<S> DerefMut for Inner<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.state
    }
}

impl<S: Send + 'static> Aide<S> {
    /// Starts a thread of this name that runs `work`.
    pub(crate) fn start(
        name: &str,
        state: S,
        work: impl FnOnce(&Shared<S>) + Send + 'static,
    ) -> Result<Self, Error> {
        let inner = Mutex::new(Inner { is_over: false, state });
        let shared = Arc::new(Shared { inner });
        let same = shared.clone();
        let thread = pace::spawn(name, move || work(&same));
        let thread = thread.map_err(|error| Error::Refused(error.to_string()))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl<S> Aide<S> {
    /// Locks the shared state. The thread cannot access it while the guard lives.
    pub(crate) fn state(&self) -> MutexGuard<'_, Inner<S>> {
        self.shared.state()
    }

    /// Wakes the thread, so that it checks the shared state.
    pub(crate) fn ring(&self) {
        self.thread.iter().for_each(Handle::unpark);
    }

    /// Ends the thread.
    pub(crate) fn leave(&mut self) {
        self.state().is_over = true;
        self.ring();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

impl<S> Drop for Aide<S> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<S> Shared<S> {
    pub(crate) fn state(&self) -> MutexGuard<'_, Inner<S>> {
        lock(&self.inner)
    }

    /// Waits for `patience`, or until the thread is to end. Returns whether it is to end.
    pub(crate) fn rest(&self, patience: Duration) -> bool {
        let until = pace::now().saturating_add(patience);
        loop {
            let (is_over, now) = (self.state().is_over, pace::now());
            if is_over || now >= until {
                return is_over;
            }
            pace::park(until - now);
        }
    }

    /// Waits until `find` finds work, but at most for `patience`, and not after the thread is to end.
    pub(crate) fn wait<T>(
        &self,
        patience: Duration,
        mut find: impl FnMut(&mut S) -> Option<T>,
    ) -> Waited<T> {
        let until = pace::now().saturating_add(patience);
        loop {
            let mut inner = self.state();
            if inner.is_over {
                return Waited::Over;
            }
            if let Some(found) = find(&mut inner.state) {
                return Waited::Found(found);
            }
            drop(inner);
            let now = pace::now();
            if now >= until {
                return Waited::InVain;
            }
            pace::park(until - now);
        }
    }
}
