//! The guard of one held lock.

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

/// A lock that is held until it is [released](Self::release), dropped or [lost](Self::lost).
///
/// While the guard exists, the lease is renewed in the background. Renewals always end with the guard: `release`
/// stops them before it sends its request, and a drop stops them immediately.
///
/// # Guarantees
///
/// - [`lost`](Self::lost) completes, and [`check`](Self::check) fails, before the lease can have ended at the server,
///   as long as this process is scheduled and clocks drift by less than 1 %. After a pause or a suspend, the first
///   check already returns the right result.
/// - A loss is final. A late response to a renewal does not bring the lock back.
/// - The lock is released once, however often the connection breaks.
///
/// # No guarantees
///
/// - That your code stops in time. Between a `check` and the next step, the process can be paused for longer than the
///   lease lasts. Send [`fencing_token`](Self::fencing_token) with every write and let the resource reject stale
///   tokens.
/// - That you learn of a revocation immediately, unless you set [`watched`](crate::LockRequest::watched). Otherwise
///   the next renewal notices it, after up to a third of the TTL. If a single lock of a [`Session`](crate::Session)
///   is revoked, this is noticed when the lock is released.
/// - That a dropped guard releases the lock. It tries to, in the background, or without a runtime by blocking for up
///   to a second. If it cannot, the lease expires.
///
/// Renewals run as a task of the runtime that the guard was made in. Blocking that runtime stops them and loses the
/// lock.
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    lease: Lease,
    tenure: Arc<Tenure>,
    heartbeat: Option<Heartbeat>,
    sentinel: Option<Sentinel>,
}

impl LockGuard {
    /// Makes a guard that renews its lease. The response to the request sent at `sent_at` granted it for
    /// `expires_in`.
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

    /// Makes a guard whose lease lasts as long as its session.
    pub(crate) fn of_session(lease: Lease, session: Arc<Tenure>) -> Self {
        let tenure = Arc::new(Tenure::within(session));
        Self { lease, tenure, heartbeat: None, sentinel: None }
    }

    /// Watches the lease at the server for its end, if `is_watched`.
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

    /// Returns the name of the lock.
    pub fn name(&self) -> &str {
        &self.lease.proof.acquired.lock_name
    }

    /// Returns the name of the lock as a list, for [`Held`].
    fn names(&self) -> Vec<String> {
        vec![self.name().into()]
    }

    /// Returns the owner of the lease.
    pub fn owner(&self) -> &str {
        &self.lease.proof.acquired.owner_id
    }

    /// Returns the lease id, which proves to the server that this client holds the lease. It is a secret.
    pub fn lease_id(&self) -> &str {
        &self.lease.proof.acquired.lease_id
    }

    /// Returns the fencing token. Send it with every write to the resource that the lock protects: see
    /// [`FencingGate`](crate::FencingGate).
    pub fn fencing_token(&self) -> u64 {
        self.lease.proof.acquired.fencing_token
    }

    /// Returns when the lock counts as lost unless it is renewed before: the time at which the last successful
    /// request was *sent*, plus the lease duration in the response, less 1 % for clock drift, less the margin.
    pub fn deadline(&self) -> Moment {
        self.tenure.deadline()
    }

    /// Returns the deadline without the margin. After this time, another client can hold the lock.
    pub fn end(&self) -> Moment {
        self.tenure.end()
    }

    /// Returns `Ok` while the lock is held. It reads the clock first.
    pub fn check(&self) -> Result<(), Lost> {
        self.tenure.check()
    }

    /// Returns whether the lock is held.
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Completes when the lock is lost; see the guarantees above. It does not borrow the guard.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + use<> {
        let tenure = self.tenure.clone();
        async move { tenure.lost().await }
    }

    /// Returns how the lease ended according to the server, and why. Only for a lock that is
    /// [watched](crate::LockRequest::watched) and was lost with [`Lost::Ended`].
    pub fn ending(&self) -> Option<&LeaseEnd> {
        self.tenure.ending()
    }

    /// Completes when the lease is renewed or ends after this call. Then [`end`](Self::end) has a new value.
    pub fn renewal(&self) -> impl Future<Output = ()> + Send + use<> {
        self.tenure.change()
    }

    /// Releases the lock. From here on, no renewal is sent, and `check` and `lost` report the lock as released. If a
    /// failure might be temporary, it retries with the same request id, as often as
    /// [`Retry::default`](crate::Retry::default) allows.
    ///
    /// [`Error::NotReleased`] means that the lease had ended before. Another client might have held the lock in the
    /// meantime.
    pub async fn release(mut self) -> Result<(), Error> {
        self.let_go().await;
        let result = self.lease.proof.release().await;
        self.lease.is_over = true;
        result
    }

    /// Leaves the lock held for `time` from now, or slightly longer, without renewing or releasing it. Use this so
    /// that another client does not repeat a quick job immediately. It retries as often as
    /// [`release`](Self::release).
    ///
    /// This never makes a lease end sooner, so `time` should be at least the TTL. If the server rejects the request,
    /// for example because `time` exceeds its limit, the lock is released as by a drop.
    pub async fn leave_for(mut self, time: Duration) -> Result<(), Error> {
        check_left(time)?;
        self.let_go().await;
        let proof = &self.lease.proof;
        let result = persist(&proof.client, || proof.renew(time)).await;
        self.lease.is_over = !is_refused(&result);
        result.map(drop)
    }

    /// Stops the renewals. From here on, `check` and `lost` report the lock as released.
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

/// A granted lease. If it is dropped before it is released, it is released in the background if possible.
pub(crate) struct Lease {
    proof: Proof,
    is_over: bool,
}

impl Lease {
    pub(crate) fn new(client: Client, acquired: Acquired) -> Self {
        let proof = Proof { client, acquired, release_id: random::request_id() };
        Self { proof, is_over: false }
    }

    /// Returns how long the lease lasts from when the request was sent.
    pub(crate) fn expires_in(&self) -> Duration {
        self.proof.acquired.expires_after_send_ms.map_or(Duration::MAX, Duration::from_millis)
    }

    /// Tries to release the lease.
    pub(crate) async fn give_back(mut self) {
        self.is_over = true;
        self.proof.give_back(&self.proof.client).await;
    }

    /// Renews the lease, and returns how long it lasts from when this was called.
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

/// The ids and the token that prove to the server that this client holds the lease.
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
            // A repeated renewal has the same effect as one, so it needs no request id.
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
            tracing::warn!(lock = self.acquired.lock_name, %error, "could not release a dropped lock");
        }
    }

    fn client(&self) -> &Client {
        &self.client
    }
}
