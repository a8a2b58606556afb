//! A thread beside the writer, and what the two share.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leasehold_base::pace::{self, Handle};
use leasehold_base::sync::lock;

use crate::Error;

/// The thread. It ends with this.
pub(super) struct Aide<S> {
    shared: Arc<Shared<S>>,
    thread: Option<Handle<()>>,
}

/// What the writer and the thread share.
pub(super) struct Shared<S> {
    inner: Mutex<Inner<S>>,
}

/// What waiting came to.
pub(super) enum Waited<T> {
    /// There is this to do.
    Found(T),
    /// There was nothing to do for so long.
    InVain,
    /// It is over.
    Over,
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
        let shared = Arc::new(Shared { inner });
        let same = shared.clone();
        let thread = pace::spawn(name, move || work(&same));
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
        self.thread.iter().for_each(Handle::unpark);
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
        let until = pace::now().saturating_add(patience);
        loop {
            let (is_over, now) = (self.state().is_over, pace::now());
            if is_over || now >= until {
                return is_over;
            }
            pace::park(until - now);
        }
    }

    /// Waits until there is something to do, but no longer than this, or until it is over.
    pub(super) fn wait<T>(
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
