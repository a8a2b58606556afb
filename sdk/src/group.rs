//! Several locks or none: asked for in one request, held by one guard.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{
    AcquireAllRequest, AcquiredAll, GrantedLease, HeldLease, LeaseEnd, Mode, ReleaseAllRequest,
    RenewAllRequest, WantedLock, WatchLeaseRequest,
};
use serde_json::Value;

use crate::clock::Moment;
use crate::farewell::{self, GiveBack};
use crate::heartbeat::Heartbeat;
use crate::place::Place;
use crate::request::{DEFAULT_TTL, WAIT_MAX, is_spent, margin, millis};
use crate::retry::{Attempts, Manner, persist};
use crate::sentinel::Sentinel;
use crate::tenure::Tenure;
use crate::{Client, Error, Lost, Retry, random};

/// Several locks to be asked for together: `client.locks().lock("a").shared("b").wait(..).acquire().await`.
///
/// All of them are granted at one instant or none is. As with [`LockRequest`](crate::LockRequest), every try carries
/// the same request id.
#[derive(Clone, Debug)]
#[must_use = "nothing is asked before `acquire`"]
pub struct LocksRequest {
    client: Client,
    locks: Vec<WantedLock>,
    owner: String,
    ttl: Duration,
    wait: Duration,
    margin: Option<Duration>,
    metadata: Option<Value>,
    retry: Retry,
    is_watched: bool,
}

impl LocksRequest {
    pub(crate) fn new(client: Client) -> Self {
        let owner = client.owner().into();
        Self {
            client,
            locks: Vec::new(),
            owner,
            ttl: DEFAULT_TTL,
            wait: Duration::ZERO,
            margin: None,
            metadata: None,
            retry: Retry::default(),
            is_watched: false,
        }
    }

    /// One more lock, for us alone.
    pub fn lock(self, name: impl Into<String>) -> Self {
        self.with(name.into(), None, None)
    }

    /// One more lock, shared with others that say so too.
    pub fn shared(self, name: impl Into<String>) -> Self {
        self.with(name.into(), Some(Mode::Shared), None)
    }

    /// One more lock, shared with up to `limit` in all.
    pub fn counted(self, name: impl Into<String>, limit: u32) -> Self {
        self.with(name.into(), None, Some(limit))
    }

    fn with(mut self, lock_name: String, mode: Option<Mode>, limit: Option<u32>) -> Self {
        self.locks.push(WantedLock { lock_name, mode, limit });
        self
    }

    /// The owner, if not the client's [`owner`](Client::owner).
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// How long the leases last if they are not renewed: 30 s unless given. They are renewed after a third of that.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Wait in the queues for so long: not at all unless given.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long before their end the leases count as lost: as for one lock.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Shown to whoever looks at one of the locks.
    pub fn metadata(mut self, metadata: impl Into<Value>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    /// Be told at once if one of the locks is revoked, not with the next renewal. It takes a connection for each for as
    /// long as they are held.
    pub fn watched(mut self) -> Self {
        self.is_watched = true;
        self
    }

    /// How failures are tried again, if not by [`Retry::default`].
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// All the locks, if they are free or become free together within [`wait`](Self::wait).
    pub async fn acquire(self) -> Result<MultiGuard, Error> {
        let margin = margin(self.ttl, self.margin)?;
        let clock = self.client.clock().clone();
        let manner = if self.wait.is_zero() { Manner::Once } else { Manner::Queue };
        let total = if self.wait.is_zero() { self.retry.total_max } else { self.wait };
        let give_up_at = clock.now() + total;
        let mut attempts = Attempts::new(self.retry, manner, give_up_at);
        let mut question = self.question();
        let mut place = Place::new(&self.client, &self.owner);
        loop {
            let sent_at = clock.now();
            // That the wait of several was over early can have another reason than that somebody ended it.
            attempts.begin(sent_at, Duration::ZERO);
            if manner == Manner::Queue {
                question.wait_ms = Some(millis(give_up_at.since(sent_at).min(WAIT_MAX)));
                place.take(question.request_id.as_ref());
            }
            let answer = self.client.acquire_all(&question).await;
            place.answered(&answer);
            let error = match answer {
                Ok(acquired) => match self.guard(margin, sent_at, acquired).await {
                    guard if guard.check().is_ok() => return Ok(guard),
                    _ => None,
                },
                Err(error) => Some(error),
            };
            let error = match error {
                Some(error) if !is_spent(&error) => error,
                _ => {
                    question.request_id = Some(random::request_id());
                    Error::Broken("the leases were over before we knew of them".into())
                }
            };
            let Some(pause) = attempts.after(&error, clock.now()) else { return Err(error) };
            clock.sleep_until(clock.now() + pause).await;
        }
    }

    fn question(&self) -> AcquireAllRequest {
        AcquireAllRequest {
            owner_id: self.owner.clone(),
            locks: self.locks.clone(),
            ttl_ms: Some(millis(self.ttl)),
            request_id: Some(random::request_id()),
            wait_ms: None,
            grace_ms: None,
            metadata: self.metadata.clone(),
            session_id: None,
        }
    }

    async fn guard(&self, margin: Duration, sent_at: Moment, acquired: AcquiredAll) -> MultiGuard {
        let (clock, ttl) = (self.client.clock(), self.ttl);
        let expires_in =
            acquired.expires_after_send_ms.map_or(Duration::MAX, Duration::from_millis);
        let proofs = Proofs { client: self.client.clone(), acquired };
        let mut granted = (sent_at, expires_in);
        // After a long wait clocks may have drifted apart by more than the whole lease. A renewal counts from now.
        if clock.now().since(sent_at) > ttl {
            let sent_at = clock.now();
            if let Ok(expires_in) = proofs.renew(ttl).await {
                granted = (sent_at, expires_in);
            }
        }
        let mut guard = MultiGuard::new(proofs, ttl, margin, granted);
        if self.is_watched {
            guard.sentinels = guard.watch();
        }
        guard
    }
}

/// Several locks that are ours until they are [released](Self::release), dropped or [lost](Self::lost): all of them, or
/// it counts as lost. The promises are those of [`LockGuard`](crate::LockGuard).
#[must_use = "the locks are given back when the guard is dropped"]
pub struct MultiGuard {
    proofs: Proofs,
    tenure: Arc<Tenure>,
    heartbeat: Option<Heartbeat>,
    sentinels: Vec<Sentinel>,
    is_over: bool,
}

impl MultiGuard {
    fn new(
        proofs: Proofs,
        ttl: Duration,
        margin: Duration,
        (sent_at, expires_in): (Moment, Duration),
    ) -> Self {
        let clock = proofs.client.clock().clone();
        let tenure = Arc::new(Tenure::new(clock.clone(), margin, sent_at, expires_in));
        let renewed = proofs.clone();
        let renew = move || {
            let proofs = renewed.clone();
            async move { proofs.renew(ttl).await }
        };
        let heartbeat = Heartbeat::start(clock, tenure.clone(), ttl, sent_at + expires_in, renew);
        let (heartbeat, sentinels) = (Some(heartbeat), Vec::new());
        Self { proofs, tenure, heartbeat, sentinels, is_over: false }
    }

    /// The owner of the leases.
    pub fn owner(&self) -> &str {
        &self.proofs.acquired.owner_id
    }

    /// The leases, in the order in which the locks were named.
    pub fn leases(&self) -> &[GrantedLease] {
        &self.proofs.acquired.leases
    }

    /// The fencing token of one of the locks: send it along to whatever that lock protects.
    pub fn fencing_token(&self, lock: &str) -> Option<u64> {
        let lease = self.leases().iter().find(|lease| lease.lock_name == lock)?;
        Some(lease.fencing_token)
    }

    /// When the locks count as lost unless they are renewed before.
    pub fn deadline(&self) -> Moment {
        self.tenure.deadline()
    }

    /// The deadline without the margin: after this somebody else may have one of the locks.
    pub fn end(&self) -> Moment {
        self.tenure.end()
    }

    /// Completes when the leases are renewed, or end, after this call. Then [`end`](Self::end) is another.
    pub fn renewal(&self) -> impl Future<Output = ()> + Send + use<> {
        self.tenure.change()
    }

    /// `Ok` as long as all the locks are ours. Looks at the clock first.
    pub fn check(&self) -> Result<(), Lost> {
        self.tenure.check()
    }

    /// Completes when one of the locks is lost. It does not borrow the guard.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + use<> {
        let tenure = self.tenure.clone();
        async move { tenure.lost().await }
    }

    /// Which of the leases ended, how and why: as [`LockGuard::ending`](crate::LockGuard::ending).
    pub fn ending(&self) -> Option<&LeaseEnd> {
        self.tenure.ending()
    }

    /// Gives all the locks back: no renewal is sent from here on. A failure that may be temporary is tried again.
    pub async fn release(mut self) -> Result<(), Error> {
        self.stop_renewing().await;
        let result = self.proofs.release().await;
        self.is_over = true;
        result
    }

    /// Leaves all the locks held for `time` from now: as [`LockGuard::leave_for`](crate::LockGuard::leave_for).
    pub async fn leave_for(mut self, time: Duration) -> Result<(), Error> {
        self.stop_renewing().await;
        let result = persist(&self.proofs.client, || self.proofs.renew(time)).await;
        self.is_over = true;
        result.map(drop)
    }

    /// Nothing is renewed after this, and whoever asks is told they are not ours.
    async fn stop_renewing(&mut self) {
        self.tenure.lose(Lost::Released);
        self.sentinels.clear();
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.stop().await;
        }
    }

    fn watch(&self) -> Vec<Sentinel> {
        let watch = |lease: &GrantedLease| {
            let (client, name) = (self.proofs.client.clone(), lease.lock_name.clone());
            let proof = WatchLeaseRequest {
                owner_id: self.proofs.acquired.owner_id.clone(),
                lease_id: lease.lease_id.clone(),
                fencing_token: lease.fencing_token,
            };
            Sentinel::start(client, name, proof, self.tenure.clone())
        };
        self.leases().iter().map(watch).collect()
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        self.heartbeat = None;
        self.sentinels.clear();
        self.tenure.lose(Lost::Released);
        if !self.is_over {
            farewell::say(self.proofs.clone());
        }
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.leases().iter().map(|lease| &lease.lock_name).collect();
        let mut shown = f.debug_struct("MultiGuard");
        shown.field("names", &names).field("owner", &self.owner()).field("check", &self.check());
        shown.finish_non_exhaustive()
    }
}

/// What shows the server that the leases are ours.
#[derive(Clone)]
struct Proofs {
    client: Client,
    acquired: AcquiredAll,
}

impl GiveBack for Proofs {
    fn give_back(&self, client: &Client) -> impl Future<Output = ()> + Send {
        let proofs = Self { client: client.clone(), acquired: self.acquired.clone() };
        async move {
            // If it cannot be given back, the leases run out.
            let _ = proofs.release().await;
        }
    }

    fn client(&self) -> &Client {
        &self.client
    }
}

impl Proofs {
    fn leases(&self) -> (String, Vec<HeldLease>) {
        let AcquiredAll { owner_id, leases, .. } = self.acquired.clone();
        (owner_id, leases.into_iter().map(Into::into).collect())
    }

    async fn renew(&self, ttl: Duration) -> Result<Duration, Error> {
        let (owner_id, leases) = self.leases();
        let request = RenewAllRequest { owner_id, extend_by_ms: millis(ttl), leases };
        let renewed = self.client.renew_all(&request).await?;
        Ok(renewed.expires_after_send_ms.map_or(Duration::MAX, Duration::from_millis))
    }

    /// A release that is repeated finds nothing left to release, which is as good.
    async fn release(&self) -> Result<(), Error> {
        let (owner_id, leases) = self.leases();
        let request = ReleaseAllRequest { owner_id, leases };
        persist(&self.client, || self.client.release_all(&request)).await.map(drop)
    }
}
