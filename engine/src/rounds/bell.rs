//! Wakes one listener.

use std::task::{Context, Poll, Waker};

use crate::sync::{AtomicBool, Mutex, Ordering::SeqCst, lock};

/// Wakes its listener: a task, a thread, or the simulation's version of either. If it rings while there is no listener,
/// the next one to poll is woken. Ringing several times before that counts once.
#[derive(Default)]
pub(crate) struct Bell {
    is_rung: AtomicBool,
    listener: Mutex<Option<Waker>>,
}

impl Bell {
    /// Rings the bell. Call it after the work for the listener is in place.
    pub(crate) fn ring(&self) {
        // An earlier ring that has not been consumed has woken the listener, or is about to.
        if self.is_rung.swap(true, SeqCst) {
            return;
        }
        // Wakes the listener only after releasing the lock, because the listener takes the lock first.
        let listener = lock(&self.listener).clone();
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// Returns ready if the bell was rung since the last time this returned ready. Otherwise registers the caller to be
    /// woken by the next ring.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_rung.swap(false, SeqCst) {
            return Poll::Ready(());
        }
        let mut listener = lock(&self.listener);
        if !listener.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *listener = Some(context.waker().clone());
        }
        drop(listener);
        // The bell might have been rung before the waker was registered.
        if self.is_rung.swap(false, SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}
