//! Requests for one lock.

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

/// A request for a lock: `client.lock("orders").ttl(..).wait(..).acquire().await`.
///
/// Every try has the same request id. So however often a connection breaks, there is one lease, one position in the
/// queue and one result. Dropping the future leaves the queue.
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

    /// Shares the lock with other clients that request it as shared.
    pub fn shared(mut self) -> Self {
        self.mode = Some(Mode::Shared);
        self
    }

    /// Shares the lock with up to `limit` holders in total. All of them must pass the same limit. The tokens of such
    /// leases do not fence.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// If the lease expires, reserves the lock for this owner for this long.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Acquires the lock, if it is free or becomes free within [`wait`](Self::wait). The queue is first come, first
    /// served. A broken connection or a quick restart of the server does not lose the position in it. If the server
    /// stays unreachable for [`Retry::attempts_max`] failures in a row, by default about 5 s, the wait fails. If it
    /// responds with 503 `BUSY` or `UNKNOWN`, the client retries for as long as the wait lasts. If the owner cancels
    /// the wait or an operator revokes it, it ends immediately with [`Error::NotAcquired`].
    pub async fn acquire(self) -> Result<LockGuard, Error> {
        let manner = self.terms.manner();
        self.ask(manner).await
    }

    /// Acquires the lock by retrying whenever the server recommends. It does not queue, so waiters in the queue go
    /// first.
    pub async fn acquire_with_retry(self) -> Result<LockGuard, Error> {
        self.ask(Manner::Return).await
    }

    /// Runs `work` while the lock is held, and releases the lock however the work ends: it completes, fails or
    /// panics, or this future is dropped. If the lock is lost in the meantime, the work is dropped at its next await
    /// point, and the result is [`Error::Lost`]. Code between await points cannot be stopped: send the
    /// [token](LockGuard::fencing_token) with every write.
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

    /// Checks the settings and returns the margin.
    fn check(&self) -> Result<Duration, Error> {
        let invalid = |why: &str| Err(Error::Invalid(why.into()));
        if let Some((_, session)) = &self.session {
            if self.terms.ttl.is_some() || self.terms.margin.is_some() {
                return invalid("ttl and margin of a session's lock are those of the session");
            }
            if let Err(lost) = session.check() {
                return invalid(&format!("the session has ended: {lost}"));
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
        // The granted duration counts from the send time, and the two clocks might have drifted apart during the wait
        // by more than the whole lease. A renewal counts from now.
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
