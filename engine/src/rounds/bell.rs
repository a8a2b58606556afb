//! Waking one sleeper.

use std::task::{Context, Poll, Waker};

use crate::sync::{AtomicBool, Mutex, Ordering::SeqCst, lock};

/// Wakes the one who listens to it: a task, a thread, or the simulation's idea of either. What was rung while nobody
/// listened is heard by whoever listens next; ringing twice before that is ringing once.
#[derive(Default)]
pub(crate) struct Bell {
    is_rung: AtomicBool,
    listener: Mutex<Option<Waker>>,
}

impl Bell {
    /// To be called after what the listener is to find is there.
    pub(crate) fn ring(&self) {
        // Whoever rang first and was not heard yet has woken the listener, or is about to.
        if self.is_rung.swap(true, SeqCst) {
            return;
        }
        // Woken when the lock is given back: the first thing it does is to look here, and it would have to wait.
        let listener = lock(&self.listener).clone();
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// Was it rung since this last said so? If not, the next ring wakes the caller.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_rung.swap(false, SeqCst) {
            return Poll::Ready(());
        }
        let mut listener = lock(&self.listener);
        if !listener.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *listener = Some(context.waker().clone());
        }
        drop(listener);
        // It may have been rung before there was anybody to wake.
        if self.is_rung.swap(false, SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}
