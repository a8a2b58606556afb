//! A lock that is ours.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{Acquired, LeaseEnd, ReleaseRequest, RenewRequest, WatchLeaseRequest};

use crate::clock::Moment;
use crate::farewell::{self, GiveBack};
use crate::heartbeat::Heartbeat;
use crate::retry::persist;
use crate::sentinel::Sentinel;
use crate::tenure::Tenure;
use crate::terms::{check_left, held, is_refused, millis};
use crate::{Client, Error, Lost, random};

/// A lock that is ours until it is [released](Self::release), dropped or [lost](Self::lost).
///
/// While it exists, the lease is renewed in the background. That ends with the guard, always: with `release`
/// before anything else is sent, with a drop at once.
///
/// # What it promises
///
/// - [`lost`](Self::lost) completes, and [`check`](Self::check) fails, before the lease can have ended at the
///   server, as long as this process is scheduled and clocks drift by less than 1 %. After a pause or a suspend,
///   the first question is answered right.
/// - A loss is final. No renewal that is answered late brings the lock back.
/// - The lock is given back once, however often the connection breaks.
///
/// # What it does not promise
///
/// - That you stop. Between a `check` and what you do next, the process can be paused for longer than the lease
///   lasts. Send [`fencing_token`](Self::fencing_token) along and let the other side refuse what is stale.
/// - To know of a revocation at once, unless [`watched`](crate::LockRequest::watched) asks for that: it is noticed
///   by the next renewal, after up to a third of the ttl. A lock of a [`Session`](crate::Session) that is revoked by
///   itself is noticed when it is released.
/// - That a dropped guard gives the lock back. It tries, in the background, or where no runtime is left by blocking for
///   up to a second; if it cannot, the lease runs out.
///
/// Renewals are a task of the runtime the guard was made in. Whoever blocks that runtime stops them, and loses
/// the lock.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct LockGuard {
    lease: Lease,
    tenure: Arc<Tenure>,
    heartbeat: Option<Heartbeat>,
    sentinel: Option<Sentinel>,
}

impl LockGuard {
    /// A lease that is renewed by itself, granted for `expires_in` by the answer to what was sent at `sent_at`.
    pub(crate) fn alone(
        lease: Lease,
        ttl: Duration,
        margin: Duration,
        (sent_at, expires_in): (Moment, Duration),
    ) -> Self {
        let clock = lease.proof.client.clock().clone();
        let tenure = Arc::new(Tenure::new(clock.clone(), margin, sent_at, expires_in));
        let proof = lease.proof.clone();
        let renew = move || {
            let proof = proof.clone();
            async move { proof.renew(ttl).await }
        };
        let (name, end) = (lease.proof.acquired.lock_name.clone(), sent_at + expires_in);
        let heartbeat = Heartbeat::start(clock, tenure.clone(), name, ttl, end, renew);
        Self { lease, tenure, heartbeat: Some(heartbeat), sentinel: None }
    }

    /// A lease that lasts as long as its session.
    pub(crate) fn of_session(lease: Lease, session: Arc<Tenure>) -> Self {
        let tenure = Arc::new(Tenure::within(session));
        Self { lease, tenure, heartbeat: None, sentinel: None }
    }

    /// Is told of the lease's end by the server, if that was asked for.
    pub(crate) fn watched(mut self, is_watched: bool) -> Self {
        self.sentinel = is_watched.then(|| {
            let Proof { client, acquired, .. } = &self.lease.proof;
            let proof = WatchLeaseRequest {
                owner_id: acquired.owner_id.clone(),
                lease_id: acquired.lease_id.clone(),
                fencing_token: acquired.fencing_token,
            };
            let lock = acquired.lock_name.clone();
            Sentinel::start(client.clone(), lock, proof, self.tenure.clone())
        });
        self
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        &self.lease.proof.acquired.lock_name
    }

    /// The same, as of several.
    fn names(&self) -> Vec<String> {
        vec![self.name().into()]
    }

    /// The owner of the lease.
    pub fn owner(&self) -> &str {
        &self.lease.proof.acquired.owner_id
    }

    /// The proof that it is ours: a secret.
    pub fn lease_id(&self) -> &str {
        &self.lease.proof.acquired.lease_id
    }

    /// Send it along to whatever the lock protects: see [`FencingGate`](crate::FencingGate).
    pub fn fencing_token(&self) -> u64 {
        self.lease.proof.acquired.fencing_token
    }

    /// When the lock counts as lost unless it is renewed before: the time at which the last successful request
    /// was *sent*, plus what the server gave, less 1 % for drifting clocks and less the margin.
    pub fn deadline(&self) -> Moment {
        self.tenure.deadline()
    }

    /// The deadline without the margin: after this somebody else may have the lock.
    pub fn end(&self) -> Moment {
        self.tenure.end()
    }

    /// `Ok` as long as the lock is ours. Looks at the clock first.
    pub fn check(&self) -> Result<(), Lost> {
        self.tenure.check()
    }

    /// Whether the lock is ours.
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Completes when the lock is lost; see the promises above. It does not borrow the guard.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + use<> {
        let tenure = self.tenure.clone();
        async move { tenure.lost().await }
    }

    /// How the server said that the lease ended, and why: only of a lock that is
    /// [watched](crate::LockRequest::watched) and was lost by [`Lost::Ended`].
    pub fn ending(&self) -> Option<&LeaseEnd> {
        self.tenure.ending()
    }

    /// Completes when the lease is renewed, or ends, after this call. Then [`end`](Self::end) is another.
    pub fn renewal(&self) -> impl Future<Output = ()> + Send + use<> {
        self.tenure.change()
    }

    /// Gives the lock back: no renewal is sent from here on, and whoever asks is told it is not ours. A failure
    /// that may be temporary is tried again, with the same request id, as often as
    /// [`Retry::default`](crate::Retry::default) says.
    ///
    /// [`Error::NotReleased`] means that the lease had ended before: somebody else may have had the lock meanwhile.
    pub async fn release(mut self) -> Result<(), Error> {
        self.let_go().await;
        let result = self.lease.proof.release().await;
        self.lease.is_over = true;
        result
    }

    /// Leaves the lock held for `time` from now, or a little longer, with nobody to renew it or give it back: so that
    /// work that was quick is not done again at once by another. Tried as often as a [release](Self::release).
    ///
    /// A lease is never made to end sooner, so `time` should not be less than the ttl. If the server refuses, because
    /// `time` is more than it allows for example, the lock is given back, as by a drop.
    pub async fn leave_for(mut self, time: Duration) -> Result<(), Error> {
        check_left(time)?;
        self.let_go().await;
        let proof = &self.lease.proof;
        let result = persist(&proof.client, || proof.renew(time)).await;
        self.lease.is_over = !is_refused(&result);
        result.map(drop)
    }

    /// Nothing is renewed after this, and whoever asks is told it is not ours.
    async fn let_go(&mut self) {
        self.tenure.lose(Lost::Released);
        self.sentinel = None;
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.stop().await;
        }
    }
}

held!(LockGuard);

impl Drop for LockGuard {
    fn drop(&mut self) {
        (self.heartbeat, self.sentinel) = (None, None);
        self.tenure.lose(Lost::Released);
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LockGuard");
        shown.field("name", &self.name()).field("owner", &self.owner());
        shown.field("fencing_token", &self.fencing_token()).field("check", &self.check());
        shown.finish_non_exhaustive()
    }
}

/// What the server granted. Dropped before it is over, it is given back as well as that can be done.
pub(crate) struct Lease {
    proof: Proof,
    is_over: bool,
}

impl Lease {
    pub(crate) fn new(client: Client, acquired: Acquired) -> Self {
        let proof = Proof { client, acquired, release_id: random::request_id() };
        Self { proof, is_over: false }
    }

    /// How long the lease lasts from when the request was sent.
    pub(crate) fn expires_in(&self) -> Duration {
        self.proof.acquired.expires_after_send_ms.map_or(Duration::MAX, Duration::from_millis)
    }

    /// Gives it back, whether that works or not.
    pub(crate) async fn give_back(mut self) {
        self.is_over = true;
        self.proof.give_back(&self.proof.client).await;
    }

    /// Renews it, and returns how long it lasts from when this was called.
    pub(crate) async fn renew(&self, ttl: Duration) -> Result<Duration, Error> {
        self.proof.renew(ttl).await
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_over {
            farewell::say(self.proof.clone());
        }
    }
}

/// What shows the server that a lease is ours.
#[derive(Clone)]
struct Proof {
    client: Client,
    acquired: Acquired,
    release_id: String,
}

impl Proof {
    async fn renew(&self, ttl: Duration) -> Result<Duration, Error> {
        let Acquired { owner_id, lease_id, fencing_token, lock_name, .. } = &self.acquired;
        let request = RenewRequest {
            owner_id: owner_id.clone(),
            lease_id: lease_id.clone(),
            fencing_token: *fencing_token,
            extend_by_ms: millis(ttl),
            // Renewing twice is renewing once.
            request_id: None,
        };
        let renewed = self.client.renew(lock_name, &request).await?;
        Ok(renewed.expires_after_send_ms.map_or(Duration::MAX, Duration::from_millis))
    }

    async fn release(&self) -> Result<(), Error> {
        let Acquired { owner_id, lease_id, fencing_token, lock_name, .. } = &self.acquired;
        let request = ReleaseRequest {
            owner_id: owner_id.clone(),
            lease_id: lease_id.clone(),
            fencing_token: *fencing_token,
            request_id: Some(self.release_id.clone()),
        };
        persist(&self.client, || self.client.release(lock_name, &request)).await.map(drop)
    }
}

impl GiveBack for Proof {
    async fn give_back(&self, client: &Client) {
        let proof = Self { client: client.clone(), ..self.clone() };
        if let Err(error) = proof.release().await {
            tracing::warn!(lock = self.acquired.lock_name, %error, "a dropped lock was not given back");
        }
    }

    fn client(&self) -> &Client {
        &self.client
    }
}
