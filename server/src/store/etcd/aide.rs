//! A thread beside the writer, and what the two share.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::store::Error;
use crate::sync::{lock, whole};

/// The thread. It ends with this.
pub(super) struct Aide<S> {
    shared: Arc<Shared<S>>,
    thread: Option<JoinHandle<()>>,
}

/// What the writer and the thread share.
pub(super) struct Shared<S> {
    inner: Mutex<Inner<S>>,
    changed: Condvar,
}

pub(super) struct Inner<S> {
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
    /// A thread of this name that does this.
    pub(super) fn start(
        name: &str,
        state: S,
        work: impl FnOnce(&Shared<S>) + Send + 'static,
    ) -> Result<Self, Error> {
        let inner = Mutex::new(Inner { is_over: false, state });
        let shared = Arc::new(Shared { inner, changed: Condvar::new() });
        let same = shared.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || work(&same));
        let thread = thread.map_err(|error| Error::Refused(error.to_string()))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl<S> Aide<S> {
    /// What is shared. Nobody else has it as long as this lives.
    pub(super) fn state(&self) -> MutexGuard<'_, Inner<S>> {
        self.shared.state()
    }

    /// Has the thread look at what is shared.
    pub(super) fn ring(&self) {
        self.shared.changed.notify_one();
    }

    /// Ends the thread.
    pub(super) fn leave(&mut self) {
        self.state().is_over = true;
        self.ring();
        if let Some(thread) = self.thread.take() {
            // What it has to say it has said.
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
    pub(super) fn state(&self) -> MutexGuard<'_, Inner<S>> {
        lock(&self.inner)
    }

    /// Waits for so long, or until it is over; is it?
    pub(super) fn rest(&self, patience: Duration) -> bool {
        let going_on = |inner: &mut Inner<S>| !inner.is_over;
        let rested = self.changed.wait_timeout_while(self.state(), patience, going_on);
        whole(rested).0.is_over
    }

    /// Waits until there is something to do, or until it is over: then there is nothing.
    pub(super) fn wait<T>(&self, mut find: impl FnMut(&S) -> Option<T>) -> Option<T> {
        let is_idle = |inner: &mut Inner<S>| !inner.is_over && find(&inner.state).is_none();
        let inner = self.changed.wait_while(self.state(), is_idle);
        let inner = whole(inner);
        if inner.is_over { None } else { find(&inner.state) }
    }
}
