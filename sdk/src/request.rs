//! Asking for a lock until it is there, or certain not to be.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{AcquireRequest, Acquired, Code, Mode};
use serde_json::Value;
use tracing::Instrument;

use crate::clock::Moment;
use crate::guard::Lease;
use crate::place::Place;
use crate::retry::{Attempts, Manner};
use crate::secret::Secret;
use crate::tenure::Tenure;
use crate::{Client, Error, LockGuard, Retry, random};

/// The longest wait the server allows unless it is set otherwise. A longer wait is several, one after the other.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A lock to be asked for: `client.lock("orders").ttl(..).wait(..).acquire().await`.
///
/// Every try carries the same request id, so however often a connection breaks there is one lease, one place
/// in the queue and one answer. A future that is dropped leaves the queue.
#[derive(Clone, Debug)]
#[must_use = "nothing is asked before `acquire`"]
pub struct LockRequest {
    client: Client,
    name: String,
    owner: String,
    ttl: Option<Duration>,
    wait: Duration,
    margin: Option<Duration>,
    mode: Option<Mode>,
    limit: Option<u32>,
    grace: Option<Duration>,
    metadata: Option<Value>,
    retry: Retry,
    session: Option<(Secret, Arc<Tenure>)>,
    is_watched: bool,
}

impl LockRequest {
    pub(crate) fn new(client: Client, name: String) -> Self {
        let owner = client.owner().into();
        Self {
            client,
            name,
            owner,
            ttl: None,
            wait: Duration::ZERO,
            margin: None,
            mode: None,
            limit: None,
            grace: None,
            metadata: None,
            retry: Retry::default(),
            session: None,
            is_watched: false,
        }
    }

    pub(crate) fn of_session(mut self, id: &str, owner: &str, tenure: Arc<Tenure>) -> Self {
        self.owner = owner.into();
        self.session = Some((Secret(id.into()), tenure));
        self
    }

    /// Who asks, if not the client's [`owner`](Client::owner). A session's locks are its owner's.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// How long the lease lasts if it is not renewed: 30 s unless given. It is renewed after a third of that.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Wait in the queue for so long: not at all unless given.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long before its end the lease counts as lost: the time you need to stop. Unless given, 250 ms or a
    /// tenth of the ttl, whichever is less. At most half of the ttl.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Share it with others that say so too.
    pub fn shared(mut self) -> Self {
        self.mode = Some(Mode::Shared);
        self
    }

    /// Share it with up to `limit` in all, who all name the same number. Tokens of such leases fence nothing.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// If the lease expires, keep the lock for this owner so long.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Shown to whoever looks at the lock.
    pub fn metadata(mut self, metadata: impl Into<Value>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    /// Be told at once if the lock is revoked, not with the next renewal. It takes a connection of its own for as long
    /// as the lock is held.
    pub fn watched(mut self) -> Self {
        self.is_watched = true;
        self
    }

    /// How failures are tried again, if not by [`Retry::default`].
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The lock, if it is free or becomes free within [`wait`](Self::wait). The queue is first come, first served,
    /// and a broken connection does not cost the place in it if the server is back within 10 s. A wait that somebody
    /// ended, by cancelling or revoking it, is [`Error::NotAcquired`] at once.
    pub async fn acquire(self) -> Result<LockGuard, Error> {
        let manner = if self.wait.is_zero() { Manner::Once } else { Manner::Queue };
        self.ask(manner).await
    }

    /// The lock, by coming back whenever the server recommends it. It does not queue: whoever does goes first.
    pub async fn acquire_with_retry(self) -> Result<LockGuard, Error> {
        self.ask(Manner::Return).await
    }

    /// Does the work while the lock is held, and gives the lock back in every way out: the work is done, it fails, it
    /// panics, or this future is dropped. If the lock is lost meanwhile the work is dropped where it waits, and the
    /// result is [`Error::Lost`]. What it does without waiting cannot be stopped: send the
    /// [token](LockGuard::fencing_token) along.
    ///
    /// ```no_run
    /// # async fn book(_token: u64) -> u32 { 7 }
    /// # async fn run(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let booked = client.lock("orders").run(async |guard| book(guard.fencing_token()).await).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(self, work: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, Error> {
        let guard = self.acquire().await?;
        let done = tokio::select! {
            biased;
            lost = guard.lost() => Err(Error::Lost(lost)),
            done = work(&guard) => Ok(done),
        };
        match (done, guard.release().await) {
            (Err(lost), _) => Err(lost),
            // It was lost before the work was done.
            (Ok(_), Err(error @ Error::NotReleased(_))) => Err(error),
            (Ok(done), Err(error)) => {
                tracing::warn!(%error, "the work is done, but the lock was not given back and will expire");
                Ok(done)
            }
            (Ok(done), Ok(())) => Ok(done),
        }
    }

    async fn ask(self, manner: Manner) -> Result<LockGuard, Error> {
        let span = tracing::debug_span!("leasehold.acquire", lock = self.name, owner = self.owner);
        self.ask_in_span(manner).instrument(span).await
    }

    async fn ask_in_span(self, manner: Manner) -> Result<LockGuard, Error> {
        let margin = self.check()?;
        let clock = self.client.clock().clone();
        let total = if self.wait.is_zero() { self.retry.total_max } else { self.wait };
        let give_up_at = clock.now() + total;
        let mut attempts = Attempts::new(self.retry, manner, give_up_at);
        let mut question = self.question();
        let mut place = Place::new(&self.client, &self.owner);
        loop {
            let sent_at = clock.now();
            let is_queued = manner == Manner::Queue;
            let wait =
                if is_queued { give_up_at.since(sent_at).min(WAIT_MAX) } else { Duration::ZERO };
            attempts.begin(sent_at, wait);
            if is_queued {
                question.wait_ms = Some(millis(wait));
                place.take(question.request_id.as_ref());
            }
            let answer = self.client.acquire(&self.name, &question).await;
            place.answered(&answer);
            let error = match answer {
                Ok(acquired) => match self.guard(margin, sent_at, acquired).await {
                    guard if guard.is_held() => {
                        tracing::debug!(token = guard.fencing_token(), "acquired");
                        return Ok(guard);
                    }
                    _ => None,
                },
                Err(error) => Some(error),
            };
            let error = match error {
                Some(error) if !is_spent(&error) => error,
                // We slept through a lease, or a broken connection kept it from us. This id has had its lease;
                // what may be left of it is given back with the guard.
                _ => {
                    question.request_id = Some(random::request_id());
                    Error::Broken("the lease was over before we knew of it".into())
                }
            };
            let Some(pause) = attempts.after(&error, clock.now()) else { return Err(error) };
            tracing::debug!(%error, ?pause, "not acquired yet");
            clock.sleep_until(clock.now() + pause).await;
        }
    }

    /// Returns the margin, if everything makes sense together.
    fn check(&self) -> Result<Duration, Error> {
        let invalid = |why: &str| Err(Error::Invalid(why.into()));
        if let Some((_, session)) = &self.session {
            if self.ttl.is_some() || self.margin.is_some() {
                return invalid("ttl and margin of a session's lock are those of the session");
            }
            if let Err(lost) = session.check() {
                return invalid(&format!("the session is over: {lost}"));
            }
        }
        margin(self.ttl_or_default(), self.margin)
    }

    fn question(&self) -> AcquireRequest {
        AcquireRequest {
            owner_id: self.owner.clone(),
            ttl_ms: self.session.is_none().then(|| millis(self.ttl_or_default())),
            request_id: Some(random::request_id()),
            wait_ms: None,
            mode: self.mode,
            limit: self.limit,
            grace_ms: self.grace.map(millis),
            metadata: self.metadata.clone(),
            session_id: self.session.as_ref().map(|(id, _)| id.0.clone()),
        }
    }

    async fn guard(&self, margin: Duration, sent_at: Moment, acquired: Acquired) -> LockGuard {
        let lease = Lease::new(self.client.clone(), acquired);
        if let Some((_, tenure)) = &self.session {
            return LockGuard::of_session(lease, tenure.clone()).watched(self.is_watched);
        }
        let (clock, ttl) = (self.client.clock(), self.ttl_or_default());
        let mut granted = (sent_at, lease.expires_in());
        // What the server gave counts from the send time, and clocks may have drifted apart over the wait by more
        // than the whole lease. A renewal counts from now.
        if clock.now().since(sent_at) > ttl {
            let sent_at = clock.now();
            if let Ok(expires_in) = lease.renew(ttl).await {
                granted = (sent_at, expires_in);
            }
        }
        LockGuard::alone(lease, ttl, margin, granted).watched(self.is_watched)
    }

    fn ttl_or_default(&self) -> Duration {
        self.ttl.unwrap_or(DEFAULT_TTL)
    }
}

pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The margin that was asked for, or the usual one.
pub(crate) fn margin(ttl: Duration, asked: Option<Duration>) -> Result<Duration, Error> {
    let margin = asked.unwrap_or_else(|| Duration::from_millis(250).min(ttl / 10));
    if margin > ttl / 2 {
        return Err(Error::Invalid("the margin is more than half of the ttl".into()));
    }
    Ok(margin)
}

/// Whole milliseconds, rounded up so that what is more than nothing stays so.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// This id has had its lease: only another one gets a new one.
pub(crate) fn is_spent(error: &Error) -> bool {
    matches!(error, Error::Failed { failure, .. } if failure.code == Code::RequestIdSpent)
}
