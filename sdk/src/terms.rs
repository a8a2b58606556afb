//! What one lock and several are asked for alike: the settings, the tries, and work under what was granted.

use std::time::Duration;

use leasehold_api::{Code, LeaseEnd};
use serde_json::Value;

use crate::client::Inner;
use crate::clock::Moment;
use crate::place::Place;
use crate::retry::{Attempts, Doubt, Manner};
use crate::{Client, Error, Lost, Retry, random};

/// The longest wait the server allows unless it is set otherwise. A longer wait is several, one after the other.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// No try of a wait lasts longer than this and the time an answer may take. Then the same is asked anew, under the same
/// request id, which keeps the place: so a connection that nobody hears of any more is not waited on for ever.
const WAIT_SLICE: Duration = Duration::from_secs(30);
/// How long a lease lasts unless said.
pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// Settings of a request, whatever is asked for.
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

    /// Whoever waits queues.
    pub(crate) fn manner(&self) -> Manner {
        if self.wait.is_zero() { Manner::Once } else { Manner::Queue }
    }
}

/// The setters of a request that has `terms`.
macro_rules! settings {
    ($request:ty) => {
        impl $request {
            /// Who asks, if not the client's [`owner`](Client::owner). A session's locks are its owner's.
            pub fn owner(mut self, owner: impl Into<String>) -> Self {
                self.terms.owner = owner.into();
                self
            }

            /// How long a lease lasts if it is not renewed: 30 s unless given. It is renewed after a third of that.
            pub fn ttl(mut self, ttl: Duration) -> Self {
                self.terms.ttl = Some(ttl);
                self
            }

            /// Wait in the queue for so long: not at all unless given.
            pub fn wait(mut self, wait: Duration) -> Self {
                self.terms.wait = wait;
                self
            }

            /// How long before its end a lease counts as lost: the time you need to stop. Unless given, 250 ms or a
            /// tenth of the ttl, whichever is less. At most half of the ttl.
            pub fn margin(mut self, margin: Duration) -> Self {
                self.terms.margin = Some(margin);
                self
            }

            /// Shown to whoever looks at a lock.
            pub fn metadata(mut self, metadata: impl Into<Value>) -> Self {
                self.terms.metadata = Some(metadata.into());
                self
            }

            /// Be told at once if a lock is revoked, not with the next renewal. It takes a connection for each lock for
            /// as long as it is held.
            pub fn watched(mut self) -> Self {
                self.terms.is_watched = true;
                self
            }

            /// How failures are tried again, if not by [`Retry::default`].
            pub fn retry(mut self, retry: Retry) -> Self {
                self.terms.retry = retry;
                self
            }
        }
    };
}
pub(crate) use settings;

/// What is held: one lock or several.
pub(crate) trait Held: Send {
    fn check(&self) -> Result<(), Lost>;
    fn lost(&self) -> impl Future<Output = Lost> + Send;
    fn release(self) -> impl Future<Output = Result<(), Error>> + Send;
    fn names(&self) -> Vec<String>;
    fn ending(&self) -> Option<&LeaseEnd>;

    /// The error of whoever needed it.
    fn loss(&self, lost: Lost) -> Error {
        let ending = self.ending().cloned().map(Box::new);
        Error::Lost { lost, locks: self.names(), ending }
    }
}

/// A guard that has these by itself, for everybody to use.
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

/// What is asked for: one lock or several.
pub(crate) trait Wish: Clone + Send + Sync + 'static {
    type Granted: Send;
    type Guard: Held;
    /// A wait that is over early was ended by somebody, and is not begun again.
    const EARLY_IS_ENDED: bool;

    fn client(&self) -> &Client;
    /// The same, asked for by another client.
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
    /// Gives back what nobody wants any more.
    fn give_back(&self, granted: Self::Granted) -> impl Future<Output = ()> + Send;
}

/// Asks until it is granted, or certain not to be. Every try carries the same request id.
pub(crate) async fn obtain<W: Wish>(
    wish: &W,
    manner: Manner,
    margin: Duration,
) -> Result<W::Guard, Error> {
    let Terms { wait, retry, .. } = wish.terms();
    let clock = wish.client().clock().clone();
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
        let asked = match in_slice(wish, sent_at, wait, wish.ask(&request_id, wait)).await {
            Some(asked) => asked,
            // It may have been granted, and nobody heard of it.
            None if clock.now() < give_up_at => {
                doubt.over(unheard());
                attempts.goes_on();
                // Nobody was to answer before. Unless nobody is there.
                wish.client().inner.transport.sound().await;
                tracing::debug!("the wait goes on over another connection");
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
            // We slept through a lease, or a broken connection kept it from us. This id has had its lease; what may be
            // left of it is given back with the guard.
            _ => {
                request_id = random::request_id();
                doubt.end();
                Error::Broken("the lease was over before we knew of it".into())
            }
        };
        let pause = attempts.after(&error, clock.now());
        let has_others = wish.client().inner.transport.n_urls() > 1;
        let pause = pause.or_else(|| attempts.once_more(&error).filter(|_| has_others));
        let Some(pause) = pause else {
            // Whoever did not wait has no place; that a lease may have been granted is what the error says.
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

/// The answer, unless it is to a wait and did not come within a slice of that. Whoever drops the question closes its
/// connection, by which the server knows that nobody listens there.
async fn in_slice<W: Wish>(
    wish: &W,
    sent_at: Moment,
    wait: Option<Duration>,
    answer: impl Future<Output = Result<W::Granted, Error>>,
) -> Option<Result<W::Granted, Error>> {
    if wait.is_none_or(|wait| wait <= WAIT_SLICE) {
        return Some(answer.await);
    }
    let Inner { clock, transport, .. } = &*wish.client().inner;
    tokio::select! {
        biased;
        answer = answer => Some(answer),
        () = clock.sleep_until(sent_at + WAIT_SLICE + transport.timeout()) => None,
    }
}

fn unheard() -> Error {
    Error::Broken("nothing came while it was waited for".into())
}

/// Does the work while it is held, and gives it back in every way out.
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
        // It was lost before the work was done.
        (Ok(_), Err(error @ Error::NotReleased(_))) => Err(error),
        (Ok(done), Err(error)) => {
            tracing::warn!(lock, %error, "the work is done, but the lock was not given back and will expire");
            Ok(done)
        }
        (Ok(done), Ok(())) => Ok(done),
    }
}

/// The margin that was asked for, or the usual one.
pub(crate) fn margin(ttl: Duration, asked: Option<Duration>) -> Result<Duration, Error> {
    let margin = asked.unwrap_or_else(|| Duration::from_millis(250).min(ttl / 10));
    if margin > ttl / 2 {
        return Err(Error::Invalid("the margin is more than half of the ttl".into()));
    }
    Ok(margin)
}

/// That it makes sense to leave something held for so long.
pub(crate) fn check_left(time: Duration) -> Result<(), Error> {
    if time.is_zero() {
        return Err(Error::Invalid("the time to leave a lock held for must be more than 0".into()));
    }
    Ok(())
}

/// Did the server say no, so that a lease is what it was? That it is over, that nobody knows, or that the server cannot
/// do it now, is another matter.
pub(crate) fn is_refused<T>(result: &Result<T, Error>) -> bool {
    let is_no = |error: &Error| !error.is_retryable() && !error.may_have_taken_effect();
    matches!(result, Err(error @ Error::Failed { .. }) if is_no(error))
}

/// Whole milliseconds, rounded up so that what is more than nothing stays so.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// This id has had its lease: only another one gets a new one.
fn is_spent(error: &Error) -> bool {
    matches!(error, Error::Failed { failure, .. } if failure.code == Code::RequestIdSpent)
}
