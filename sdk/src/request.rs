//! Asking for a lock.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{AcquireRequest, Acquired, Mode};
use serde_json::Value;
use tracing::Instrument;

use crate::clock::Moment;
use crate::guard::Lease;
use crate::retry::Manner;
use crate::secret::Secret;
use crate::tenure::Tenure;
use crate::terms::{Terms, Wish, millis, obtain, settings, work_under};
use crate::{Client, Error, LockGuard, Retry};

/// A lock to be asked for: `client.lock("orders").ttl(..).wait(..).acquire().await`.
///
/// Every try carries the same request id, so however often a connection breaks there is one lease, one place
/// in the queue and one answer. A future that is dropped leaves the queue.
#[derive(Clone, Debug)]
#[must_use = "nothing is asked before `acquire`"]
pub struct LockRequest {
    client: Client,
    name: String,
    terms: Terms,
    mode: Option<Mode>,
    limit: Option<u32>,
    grace: Option<Duration>,
    session: Option<(Secret, Arc<Tenure>)>,
}

settings!(LockRequest);

impl LockRequest {
    pub(crate) fn new(client: Client, name: String) -> Self {
        let terms = Terms::new(&client);
        Self { client, name, terms, mode: None, limit: None, grace: None, session: None }
    }

    pub(crate) fn of_session(mut self, id: &str, owner: &str, tenure: Arc<Tenure>) -> Self {
        self.terms.owner = owner.into();
        self.session = Some((Secret(id.into()), tenure));
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

    /// The lock, if it is free or becomes free within [`wait`](Self::wait). The queue is first come, first served,
    /// and a broken connection or a quick restart of the server does not cost the place in it. A server that is gone
    /// for longer than [`Retry::attempts_max`] failures in a row take, about 5 s unless given, ends the wait; one that
    /// answers 503 `BUSY` or `UNKNOWN` is asked again for as long as the wait lasts. An owner who cancels the wait and
    /// an operator who revokes it end it at once: that is [`Error::NotAcquired`].
    pub async fn acquire(self) -> Result<LockGuard, Error> {
        let manner = self.terms.manner();
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
        work_under(self.acquire().await?, work).await
    }

    async fn ask(self, manner: Manner) -> Result<LockGuard, Error> {
        let margin = self.check()?;
        let (lock, owner) = (&self.name, &self.terms.owner);
        let span = tracing::debug_span!("leasehold.acquire", lock, owner);
        obtain(&self, manner, margin).instrument(span).await
    }

    /// Returns the margin, if everything makes sense together.
    fn check(&self) -> Result<Duration, Error> {
        let invalid = |why: &str| Err(Error::Invalid(why.into()));
        if let Some((_, session)) = &self.session {
            if self.terms.ttl.is_some() || self.terms.margin.is_some() {
                return invalid("ttl and margin of a session's lock are those of the session");
            }
            if let Err(lost) = session.check() {
                return invalid(&format!("the session is over: {lost}"));
            }
        }
        self.terms.margin()
    }
}

impl Wish for LockRequest {
    type Granted = Acquired;
    type Guard = LockGuard;
    const EARLY_IS_ENDED: bool = true;

    fn client(&self) -> &Client {
        &self.client
    }

    fn by(&self, client: &Client) -> Self {
        Self { client: client.clone(), ..self.clone() }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    async fn ask(&self, request_id: &str, wait: Option<Duration>) -> Result<Acquired, Error> {
        let Terms { owner, metadata, .. } = &self.terms;
        let question = AcquireRequest {
            owner_id: owner.clone(),
            ttl_ms: self.session.is_none().then(|| millis(self.terms.ttl())),
            request_id: Some(request_id.into()),
            wait_ms: wait.map(millis),
            mode: self.mode,
            limit: self.limit,
            grace_ms: self.grace.map(millis),
            metadata: metadata.clone(),
            session_id: self.session.as_ref().map(|(id, _)| id.0.clone()),
        };
        self.client.acquire(&self.name, &question).await
    }

    async fn guard(&self, margin: Duration, sent_at: Moment, acquired: Acquired) -> LockGuard {
        let lease = Lease::new(self.client.clone(), acquired);
        let is_watched = self.terms.is_watched;
        if let Some((_, tenure)) = &self.session {
            return LockGuard::of_session(lease, tenure.clone()).watched(is_watched);
        }
        let (clock, ttl) = (self.client.clock(), self.terms.ttl());
        let mut granted = (sent_at, lease.expires_in());
        // What the server gave counts from the send time, and clocks may have drifted apart over the wait by more
        // than the whole lease. A renewal counts from now.
        if clock.now().since(sent_at) > ttl {
            let sent_at = clock.now();
            if let Ok(expires_in) = lease.renew(ttl).await {
                granted = (sent_at, expires_in);
            }
        }
        LockGuard::alone(lease, ttl, margin, granted).watched(is_watched)
    }

    async fn give_back(&self, acquired: Acquired) {
        Lease::new(self.client.clone(), acquired).give_back().await;
    }
}
