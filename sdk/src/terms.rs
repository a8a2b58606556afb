//! The settings, retries and guarded work that requests for one lock and for several have in common.

use std::time::Duration;

use leasehold_api::{Code, LeaseEnd};
use serde_json::Value;

use crate::client::Inner;
use crate::clock::Moment;
use crate::place::Place;
use crate::retry::{Attempts, Doubt, Manner};
use crate::{Client, Error, Lost, Retry, random};

/// The server's default limit for a wait. A longer wait is split into several.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum duration of one try of a wait, in addition to the response timeout. After that, the client repeats the
/// request with the same request id, which keeps the position in the queue. So it does not wait indefinitely on a
/// connection that has silently died.
const WAIT_SLICE: Duration = Duration::from_secs(30);
/// The default TTL.
pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The settings of a request for one lock or several.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) owner: String,
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Duration,
    pub(crate) margin: Option<Duration>,
    pub(crate) metadata: Option<Value>,
    pub(crate) retry: Retry,
    pub(crate) is_watched: bool,
}

impl Terms {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            owner: client.owner().into(),
            ttl: None,
            wait: Duration::ZERO,
            margin: None,
            metadata: None,
            retry: Retry::default(),
            is_watched: false,
        }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(DEFAULT_TTL)
    }

    pub(crate) fn margin(&self) -> Result<Duration, Error> {
        margin(self.ttl(), self.margin)
    }

    /// A request with a wait joins the queue.
    pub(crate) fn manner(&self) -> Manner {
        if self.wait.is_zero() { Manner::Once } else { Manner::Queue }
    }
}

/// The setters of a request that has `terms`.
macro_rules! settings {
    ($request:ty) => {
        impl $request {
            /// The owner of the lease. Default: the client's [`owner`](Client::owner), or the session's owner for a
            /// lock of a session.
            pub fn owner(mut self, owner: impl Into<String>) -> Self {
                self.terms.owner = owner.into();
                self
            }

            /// How long a lease lasts without renewal. It is renewed after a third of that. Default: 30 s.
            pub fn ttl(mut self, ttl: Duration) -> Self {
                self.terms.ttl = Some(ttl);
                self
            }

            /// How long to wait in the queue. Default: not at all.
            pub fn wait(mut self, wait: Duration) -> Self {
                self.terms.wait = wait;
                self
            }

            /// How long before its end a lease counts as lost: the time that your code needs to stop. At most half of
            /// the TTL. Default: 250 ms or a tenth of the TTL, whichever is less.
            pub fn margin(mut self, margin: Duration) -> Self {
                self.terms.margin = Some(margin);
                self
            }

            /// Metadata that is shown to clients that read the lock.
            pub fn metadata(mut self, metadata: impl Into<Value>) -> Self {
                self.terms.metadata = Some(metadata.into());
                self
            }

            /// Learns of a revocation immediately, instead of with the next renewal. It takes one connection per lock
            /// for as long as the lock is held.
            pub fn watched(mut self) -> Self {
                self.terms.is_watched = true;
                self
            }

            /// How failures are retried. Default: [`Retry::default`].
            pub fn retry(mut self, retry: Retry) -> Self {
                self.terms.retry = retry;
                self
            }
        }
    };
}
pub(crate) use settings;

/// Holds one lock or several.
pub(crate) trait Held: Send {
    fn check(&self) -> Result<(), Lost>;
    fn lost(&self) -> impl Future<Output = Lost> + Send;
    fn release(self) -> impl Future<Output = Result<(), Error>> + Send;
    fn names(&self) -> Vec<String>;
    fn ending(&self) -> Option<&LeaseEnd>;

    /// Returns the error for work that needed the lock.
    fn loss(&self, lost: Lost) -> Error {
        let ending = self.ending().cloned().map(Box::new);
        Error::Lost { lost, locks: self.names(), ending }
    }
}

/// Implements [`Held`] for a guard by its own methods.
macro_rules! held {
    ($guard:ty) => {
        impl $crate::terms::Held for $guard {
            fn check(&self) -> Result<(), Lost> {
                Self::check(self)
            }

            fn lost(&self) -> impl Future<Output = Lost> + Send {
                Self::lost(self)
            }

            fn release(self) -> impl Future<Output = Result<(), Error>> + Send {
                Self::release(self)
            }

            fn names(&self) -> Vec<String> {
                Self::names(self)
            }

            fn ending(&self) -> Option<&LeaseEnd> {
                Self::ending(self)
            }
        }
    };
}
pub(crate) use held;

/// A request for one lock or several.
pub(crate) trait Wish: Clone + Send + Sync + 'static {
    type Granted: Send;
    type Guard: Held;
    /// Whether a wait that is over early was cancelled or revoked, so that it is not repeated.
    const EARLY_IS_ENDED: bool;

    fn client(&self) -> &Client;
    /// Returns the same request by another client.
    fn by(&self, client: &Client) -> Self;
    fn terms(&self) -> &Terms;
    fn ask(
        &self,
        request_id: &str,
        wait: Option<Duration>,
    ) -> impl Future<Output = Result<Self::Granted, Error>> + Send;
    fn guard(
        &self,
        margin: Duration,
        sent_at: Moment,
        granted: Self::Granted,
    ) -> impl Future<Output = Self::Guard> + Send;
    /// Releases leases that the caller no longer wants.
    fn give_back(&self, granted: Self::Granted) -> impl Future<Output = ()> + Send;
}

/// Repeats a request until the lock is granted or the result is final. Every try has the same request id.
pub(crate) async fn obtain<W: Wish>(
    wish: &W,
    manner: Manner,
    margin: Duration,
) -> Result<W::Guard, Error> {
    let Terms { wait, retry, .. } = wish.terms();
    let (client, clock) = (wish.client(), wish.client().clock().clone());
    let give_up_at = clock.now() + if wait.is_zero() { retry.total_max } else { *wait };
    let mut attempts = Attempts::new(*retry, manner, give_up_at);
    let mut request_id = random::request_id();
    let mut place = Place::new(wish);
    let mut doubt = Doubt::default();
    loop {
        let sent_at = clock.now();
        let wait = (manner == Manner::Queue).then(|| give_up_at.since(sent_at).min(WAIT_MAX));
        attempts.begin(sent_at, wait.filter(|_| W::EARLY_IS_ENDED).unwrap_or_default());
        place.take(&request_id);
        let asked = match in_slice(client, sent_at, wait, wish.ask(&request_id, wait)).await {
            Some(asked) => asked,
            // The lock might have been granted, but the response was lost.
            None if clock.now() < give_up_at => {
                doubt.over(unheard());
                attempts.goes_on();
                // No response was due yet. Check that the server is still there.
                wish.client().inner.transport.sound().await;
                tracing::debug!("the wait continues over another connection");
                continue;
            }
            None => Err(unheard()),
        };
        let error = match asked {
            Ok(granted) => {
                let guard = wish.guard(margin, sent_at, granted).await;
                place.settle();
                if guard.check().is_ok() {
                    acquired(wish);
                    return Ok(guard);
                }
                None
            }
            Err(error) => {
                let error = doubt.over(error);
                place.refused(&error);
                Some(error)
            }
        };
        let error = match error {
            Some(error) if !is_spent(&error) => error,
            // The lease ended before the client got the response, which a suspended process or a broken connection
            // delayed. This request id is used up. If the lease is still active, dropping the guard releases it.
            _ => {
                request_id = random::request_id();
                doubt.end();
                Error::Broken("the lease had ended before the client received it".into())
            }
        };
        let pause = attempts.after(&error, clock.now());
        let has_others = wish.client().inner.transport.n_urls() > 1;
        let pause = pause.or_else(|| attempts.once_more(&error).filter(|_| has_others));
        let Some(pause) = pause else {
            // Without a wait there is no position in a queue. The error reports that a lease might have been granted.
            if manner != Manner::Queue {
                place.settle();
            }
            return Err(error);
        };
        tracing::debug!(%error, ?pause, "not acquired yet");
        clock.sleep_until(clock.now() + pause).await;
    }
}

fn acquired<W: Wish>(wish: &W) {
    tracing::debug!("acquired");
    wish.client().inner.transport.failover().warn(wish.terms().ttl());
}

/// Returns the response, or `None` if the request is a wait and a slice of it passed without one. Dropping the
/// request closes its connection, so the server knows that the client no longer listens there.
pub(crate) async fn in_slice<T>(
    client: &Client,
    sent_at: Moment,
    wait: Option<Duration>,
    answer: impl Future<Output = Result<T, Error>>,
) -> Option<Result<T, Error>> {
    if wait.is_none_or(|wait| wait <= WAIT_SLICE) {
        return Some(answer.await);
    }
    let Inner { clock, transport, .. } = &*client.inner;
    tokio::select! {
        biased;
        answer = answer => Some(answer),
        () = clock.sleep_until(sent_at + WAIT_SLICE + transport.timeout()) => None,
    }
}

fn unheard() -> Error {
    Error::Broken("no response arrived during the wait".into())
}

/// Runs the work while the lock is held, and releases the lock however the work ends.
pub(crate) async fn work_under<G: Held, T>(
    guard: G,
    work: impl AsyncFnOnce(&G) -> T,
) -> Result<T, Error> {
    let done = tokio::select! {
        biased;
        lost = guard.lost() => Err(guard.loss(lost)),
        done = work(&guard) => Ok(done),
    };
    let lock = guard.names().join(", ");
    match (done, guard.release().await) {
        (Err(lost), _) => Err(lost),
        // The lock was lost before the work was complete.
        (Ok(_), Err(error @ Error::NotReleased(_))) => Err(error),
        (Ok(done), Err(error)) => {
            tracing::warn!(lock, %error, "the work is done, but the lock was not released and will expire");
            Ok(done)
        }
        (Ok(done), Ok(())) => Ok(done),
    }
}

/// Returns the requested margin, or the default.
pub(crate) fn margin(ttl: Duration, asked: Option<Duration>) -> Result<Duration, Error> {
    let margin = asked.unwrap_or_else(|| Duration::from_millis(250).min(ttl / 10));
    if margin > ttl / 2 {
        return Err(Error::Invalid("the margin is more than half of the ttl".into()));
    }
    Ok(margin)
}

/// Checks that the time to leave a lock held is valid.
pub(crate) fn check_left(time: Duration) -> Result<(), Error> {
    if time.is_zero() {
        return Err(Error::Invalid("the time to leave a lock held for must be more than 0".into()));
    }
    Ok(())
}

/// Returns whether the server rejected the request, so that the lease is unchanged. Not if the lease has ended, if
/// the outcome is unknown, or if the server is temporarily unavailable.
pub(crate) fn is_refused<T>(result: &Result<T, Error>) -> bool {
    let is_no = |error: &Error| !error.is_retryable() && !error.may_have_taken_effect();
    matches!(result, Err(error @ Error::Failed { .. }) if is_no(error))
}

/// Returns whole milliseconds, rounded up so that no positive duration becomes zero.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns whether this request id has already had its lease. Only a new request id gets a new lease.
fn is_spent(error: &Error) -> bool {
    matches!(error, Error::Failed { failure, .. } if failure.code == Code::RequestIdSpent)
}
