//! A future that is polled only after it was woken itself.
//!
//! Waking a task usually polls all of its futures. A connection's task is woken by every request, but the events that
//! end it (a timer, a disconnect, a shutdown) happen once.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use leasehold_base::sync::lock;

pub(super) struct Aside<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
    /// The waker of the task, which this future's own waker wakes.
    task: Option<Waker>,
}

#[derive(Default)]
struct Bell {
    is_rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl<F: Future> Aside<F> {
    pub(super) fn new(future: F) -> Self {
        let bell = Arc::new(Bell { is_rung: AtomicBool::new(true), task: Mutex::default() });
        Self { future: Box::pin(future), waker: bell.clone().into(), bell, task: None }
    }
}

impl<F: Future> Future for Aside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !this.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            this.task = Some(context.waker().clone());
            *this.bell.task() = this.task.clone();
        }
        if !this.bell.is_rung.swap(false, AcqRel) {
            return Poll::Pending;
        }
        this.future.as_mut().poll(&mut Context::from_waker(&this.waker))
    }
}

impl Bell {
    fn task(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        lock(&self.task)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_rung.store(true, Release);
        if let Some(task) = &*self.task() {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[tokio::test]
    async fn it_is_polled_when_it_was_woken_and_only_then() {
        let n_polled = AtomicUsize::new(0);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let inner = async {
            let mut receiver = receiver;
            poll_fn(|context| {
                n_polled.fetch_add(1, Relaxed);
                Pin::new(&mut receiver).poll(context)
            })
            .await
        };
        let mut aside = Aside::new(inner);
        for _ in 0..10 {
            let polled = poll_fn(|context| Poll::Ready(Pin::new(&mut aside).poll(context))).await;
            assert!(polled.is_pending());
        }
        assert_eq!(n_polled.load(Relaxed), 1);
        let sending = tokio::spawn(async move { sender.send(7) });
        assert_eq!(aside.await, Ok(7));
        assert_eq!((n_polled.load(Relaxed), sending.await.expect("no panic")), (2, Ok(())));
    }
}
