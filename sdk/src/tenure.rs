//! Tracks how long a lease is held. Only this module compares a deadline with the clock.
//!
//! Every check reads the clock first. Once a loss is reported, it stays: a later response does not bring the lease
//! back.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use leasehold_api::LeaseEnd;
use tokio::sync::watch;

use crate::clock::{Clock, Moment};

/// Clocks can drift apart by one part in this many.
const DRIFT: u32 = 100;

/// Why a lock is no longer held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Lost {
    /// The lease was not renewed in time: it ends within the margin, or has ended while the process was paused.
    OutOfTime,
    /// The server reported that the lease expired or was revoked. Another client might already hold the lock.
    Ended,
    /// The lease was released, or its session was closed.
    Released,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lost::OutOfTime => "the lease could not be renewed in time",
            Lost::Ended => "the lease expired or was revoked",
            Lost::Released => "the lease was released",
        })
    }
}

impl std::error::Error for Lost {}

/// What a holder knows about the time of its lease.
#[derive(Debug)]
pub(crate) struct Tenure {
    clock: Arc<dyn Clock>,
    /// How long before its end the lease counts as lost.
    margin: Duration,
    state: watch::Sender<State>,
    /// The lease or session that limits this one.
    within: Option<Arc<Tenure>>,
    /// How the lease ended according to the server.
    ending: OnceLock<LeaseEnd>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// The lease lasts at least until then.
    end: Moment,
    lost: Option<Lost>,
}

impl Tenure {
    /// Creates a tenure for `expires_in`, granted by the response to the request sent at `sent_at`.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        margin: Duration,
        sent_at: Moment,
        expires_in: Duration,
    ) -> Self {
        let state = State { end: end(sent_at, expires_in), lost: None };
        let (state, ending) = (watch::Sender::new(state), OnceLock::new());
        Self { clock, margin, state, within: None, ending }
    }

    /// Creates a tenure that lasts as long as `other`, unless it is released before.
    pub(crate) fn within(other: Arc<Tenure>) -> Self {
        let state = watch::Sender::new(State { end: Moment::NEVER, lost: None });
        let (clock, margin, ending) = (other.clock.clone(), other.margin, OnceLock::new());
        Self { clock, margin, state, within: Some(other), ending }
    }

    /// Returns when the lease counts as lost unless renewed.
    pub(crate) fn deadline(&self) -> Moment {
        let deadline = self.state.borrow().end - self.margin;
        self.within.as_ref().map_or(deadline, |other| deadline.min(other.deadline()))
    }

    /// Returns until when no other client can hold the lock, if clocks drift no more than assumed.
    pub(crate) fn end(&self) -> Moment {
        let end = self.state.borrow().end;
        self.within.as_ref().map_or(end, |other| end.min(other.end()))
    }

    pub(crate) fn check(&self) -> Result<(), Lost> {
        let now = self.clock.now();
        if let Some(other) = &self.within {
            other.check()?;
        }
        let is_late = |state: &State| state.lost.is_none() && now >= state.end - self.margin;
        let State { lost, .. } = *self.state.borrow();
        match lost {
            Some(lost) => Err(lost),
            None if is_late(&self.state.borrow()) => Err(self.lose(Lost::OutOfTime)),
            None => Ok(()),
        }
    }

    /// Records the response to a renewal sent at `sent_at`. A lease that is already lost stays lost.
    pub(crate) fn extend(&self, sent_at: Moment, expires_in: Duration) -> Result<(), Lost> {
        self.check()?;
        let end = end(sent_at, expires_in);
        self.state.send_modify(|state| state.end = state.end.max(end));
        self.check()
    }

    /// Marks the lease as lost, unless it already is. Returns the reason.
    pub(crate) fn lose(&self, why: Lost) -> Lost {
        self.state.send_modify(|state| state.lost = state.lost.or(Some(why)));
        self.state.borrow().lost.unwrap_or(why)
    }

    /// Records that the server reported the end of the lease, and how it ended if known.
    pub(crate) fn ended(&self, ending: Option<LeaseEnd>) {
        if let Some(ending) = ending {
            // The first value counts, as with the reason.
            let _ = self.ending.set(ending);
        }
        self.lose(Lost::Ended);
    }

    /// Returns how the lease ended according to the server, if that is why it is lost.
    pub(crate) fn ending(&self) -> Option<&LeaseEnd> {
        self.ending.get().filter(|_| self.state.borrow().lost == Some(Lost::Ended))
    }

    /// Completes with the next change after this call.
    pub(crate) fn change(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut state = self.state.subscribe();
        async move { drop(state.changed().await) }
    }

    /// Completes when the lease is lost. After a pause, the first poll completes.
    pub(crate) async fn lost(&self) -> Lost {
        let mut news = pin!(self.news());
        std::future::poll_fn(move |context| match self.check() {
            Err(lost) => Poll::Ready(lost),
            Ok(()) => news.as_mut().poll(context),
        })
        .await
    }

    async fn news(&self) -> Lost {
        let mut own = self.state.subscribe();
        let mut others = self.within.as_ref().map(|other| other.state.subscribe());
        loop {
            own.mark_unchanged();
            if let Some(other) = &mut others {
                other.mark_unchanged();
            }
            if let Err(lost) = self.check() {
                return lost;
            }
            let other_changed = async {
                match &mut others {
                    Some(other) => drop(other.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.clock.sleep_until(self.deadline()) => {}
                _ = own.changed() => {}
                () = other_changed => {}
            }
        }
    }
}

/// Returns the end of the lease on this machine's clock. It is never later than the end at the server, which counts
/// from when it received the request.
fn end(sent_at: Moment, expires_in: Duration) -> Moment {
    sent_at + (expires_in - expires_in / DRIFT)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use super::*;
    use crate::clock::FakeClock;

    const TTL: Duration = Duration::from_secs(10);
    const MARGIN: Duration = Duration::from_secs(1);

    fn fresh() -> (FakeClock, Tenure) {
        let clock = FakeClock::default();
        let tenure = Tenure::new(Arc::new(clock.clone()), MARGIN, clock.now(), TTL);
        (clock, tenure)
    }

    fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_deadline_is_the_send_time_and_the_ttl_less_drift_and_margin() {
        let (clock, tenure) = fresh();
        assert_eq!(tenure.end(), clock.now() + Duration::from_millis(9_900));
        assert_eq!(tenure.deadline(), clock.now() + Duration::from_millis(8_900));
        clock.advance(Duration::from_millis(8_899));
        assert_eq!(tenure.check(), Ok(()));
        clock.advance(Duration::from_millis(1));
        assert_eq!(tenure.check(), Err(Lost::OutOfTime));
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent_and_never_shortens() {
        let (clock, tenure) = fresh();
        let sent_at = clock.now();
        clock.advance(Duration::from_secs(5));
        assert_eq!(tenure.extend(sent_at, TTL), Ok(()));
        assert_eq!(tenure.end(), sent_at + Duration::from_millis(9_900));
        assert_eq!(tenure.extend(clock.now(), Duration::from_secs(1)), Ok(()));
        assert_eq!(tenure.end(), sent_at + Duration::from_millis(9_900));
    }

    #[test]
    fn a_late_response_does_not_bring_back_a_lost_lease() {
        let (clock, tenure) = fresh();
        clock.advance(Duration::from_secs(8));
        let sent_at = clock.now();
        clock.advance(Duration::from_secs(1));
        assert_eq!(tenure.extend(sent_at, TTL), Err(Lost::OutOfTime));
        assert_eq!(tenure.check(), Err(Lost::OutOfTime));
        assert_eq!(tenure.lose(Lost::Ended), Lost::OutOfTime, "the first reason is the reason");
    }

    #[tokio::test]
    async fn the_first_poll_after_a_pause_says_lost_whatever_woke_it() {
        let (clock, tenure) = fresh();
        let mut lost = pin!(tenure.lost());
        assert!(poll_once(lost.as_mut()).is_pending());
        clock.advance(TTL);
        assert_eq!(poll_once(lost.as_mut()), Poll::Ready(Lost::OutOfTime));
    }

    #[tokio::test]
    async fn a_loss_wakes_every_waiter_and_a_renewal_moves_the_alarm() {
        let (clock, tenure) = fresh();
        let mut lost = pin!(tenure.lost());
        assert!(poll_once(lost.as_mut()).is_pending());
        clock.advance(Duration::from_secs(5));
        tenure.extend(clock.now(), TTL).unwrap();
        clock.advance(Duration::from_secs(5));
        assert!(poll_once(lost.as_mut()).is_pending());
        clock.advance(Duration::from_secs(5));
        assert_eq!(lost.await, Lost::OutOfTime);
    }

    #[tokio::test]
    async fn a_lock_of_a_session_goes_with_it_and_not_the_other_way_round() {
        let (clock, session) = fresh();
        let session = Arc::new(session);
        let [kept, released] = [(); 2].map(|()| Tenure::within(session.clone()));
        assert_eq!(released.lose(Lost::Released), Lost::Released);
        assert_eq!(released.lost().await, Lost::Released);
        assert_eq!((session.check(), kept.check()), (Ok(()), Ok(())));
        session.extend(clock.now() + TTL, TTL).unwrap();
        assert_eq!(kept.deadline(), session.deadline());
        let mut lost = pin!(kept.lost());
        assert!(poll_once(lost.as_mut()).is_pending());
        session.lose(Lost::Ended);
        assert_eq!(lost.await, Lost::Ended);
    }
}
