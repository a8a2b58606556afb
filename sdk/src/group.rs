//! Several locks that are acquired together in one request and held by one guard.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use leasehold_api::{
    AcquireAllRequest, AcquiredAll, GrantedLease, HeldLease, LeaseEnd, Mode, NotReleased, Reason,
    ReleaseAllRequest, ReleasedAll, ReleasedLease, RenewAllRequest, WantedLock, WatchLeaseRequest,
};
use serde_json::Value;
use tracing::Instrument;

use crate::clock::Moment;
use crate::farewell::{self, GiveBack};
use crate::heartbeat::Heartbeat;
use crate::retry::persist;
use crate::sentinel::Sentinel;
use crate::tenure::Tenure;
use crate::terms::{
    Terms, Wish, check_left, held, is_refused, millis, obtain, settings, work_under,
};
use crate::{Client, Error, Lost, Retry};

/// A request for several locks: `client.locks().lock("a").shared("b").wait(..).acquire().await`.
///
/// The server grants all of them at one instant, or none. As with [`LockRequest`](crate::LockRequest), every try has
/// the same request id.
#[derive(Clone, Debug)]
#[must_use = "nothing is asked before `acquire`"]
pub struct LocksRequest {
    client: Client,
    locks: Vec<WantedLock>,
    terms: Terms,
}

settings!(LocksRequest);

impl LocksRequest {
    pub(crate) fn new(client: Client) -> Self {
        let terms = Terms::new(&client);
        Self { client, locks: Vec::new(), terms }
    }

    /// Adds a lock to hold exclusively.
    pub fn lock(self, name: impl Into<String>) -> Self {
        self.with(name.into(), None, None)
    }

    /// Adds a lock to share with other clients that request it as shared.
    pub fn shared(self, name: impl Into<String>) -> Self {
        self.with(name.into(), Some(Mode::Shared), None)
    }

    /// Adds a lock to share with up to `limit` holders in total.
    pub fn counted(self, name: impl Into<String>, limit: u32) -> Self {
        self.with(name.into(), None, Some(limit))
    }

    fn with(mut self, lock_name: String, mode: Option<Mode>, limit: Option<u32>) -> Self {
        self.locks.push(WantedLock { lock_name, mode, limit });
        self
    }

    /// Acquires all the locks, if they are free or become free together within [`wait`](Self::wait).
    pub async fn acquire(self) -> Result<MultiGuard, Error> {
        let margin = self.terms.margin()?;
        let names: Vec<_> = self.locks.iter().map(|lock| lock.lock_name.as_str()).collect();
        let (lock, owner) = (names.join(", "), &self.terms.owner);
        let span = tracing::debug_span!("leasehold.acquire", lock, owner);
        obtain(&self, self.terms.manner(), margin).instrument(span).await
    }

    /// Runs `work` while all the locks are held: see [`LockRequest::run`](crate::LockRequest::run).
    pub async fn run<T>(self, work: impl AsyncFnOnce(&MultiGuard) -> T) -> Result<T, Error> {
        work_under(self.acquire().await?, work).await
    }
}

impl Wish for LocksRequest {
    type Granted = AcquiredAll;
    type Guard = MultiGuard;
    /// A wait for several locks can end early for other reasons than a cancellation or revocation.
    const EARLY_IS_ENDED: bool = false;

    fn client(&self) -> &Client {
        &self.client
    }

    fn by(&self, client: &Client) -> Self {
        Self { client: client.clone(), ..self.clone() }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    async fn ask(&self, request_id: &str, wait: Option<Duration>) -> Result<AcquiredAll, Error> {
        let Terms { owner, metadata, .. } = &self.terms;
        let question = AcquireAllRequest {
            owner_id: owner.clone(),
            locks: self.locks.clone(),
            ttl_ms: Some(millis(self.terms.ttl())),
            request_id: Some(request_id.into()),
            wait_ms: wait.map(millis),
            grace_ms: None,
            metadata: metadata.clone(),
            session_id: None,
        };
        self.client.acquire_all(&question).await
    }

    async fn guard(&self, margin: Duration, sent_at: Moment, acquired: AcquiredAll) -> MultiGuard {
        let (clock, ttl) = (self.client.clock(), self.terms.ttl());
        let expires_in =
            acquired.expires_after_send_ms.map_or(Duration::MAX, Duration::from_millis);
        let proofs = Proofs { client: self.client.clone(), acquired };
        let mut granted = (sent_at, expires_in);
        // After a long wait, the two clocks might have drifted apart by more than the whole lease. A renewal counts
        // from now.
        if clock.now().since(sent_at) > ttl {
            let sent_at = clock.now();
            if let Ok(expires_in) = proofs.renew(ttl).await {
                granted = (sent_at, expires_in);
            }
        }
        let mut guard = MultiGuard::new(proofs, ttl, margin, granted);
        if self.terms.is_watched {
            guard.sentinels = guard.watch();
        }
        guard
    }

    async fn give_back(&self, acquired: AcquiredAll) {
        let proofs = Proofs { client: self.client.clone(), acquired };
        proofs.give_back(&self.client).await;
    }
}

/// Several locks that are held until they are [released](Self::release), dropped or [lost](Self::lost). If one of
/// them is lost, all count as lost. The guarantees are those of [`LockGuard`](crate::LockGuard).
#[must_use = "the locks are released when the guard is dropped"]
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
        let (names, end) = (proofs.names().join(", "), sent_at + expires_in);
        let heartbeat = Heartbeat::start(clock, tenure.clone(), names, ttl, end, renew);
        let (heartbeat, sentinels) = (Some(heartbeat), Vec::new());
        Self { proofs, tenure, heartbeat, sentinels, is_over: false }
    }

    /// Returns the owner of the leases.
    pub fn owner(&self) -> &str {
        &self.proofs.acquired.owner_id
    }

    /// Returns the leases, in the order in which the locks were added.
    pub fn leases(&self) -> &[GrantedLease] {
        &self.proofs.acquired.leases
    }

    /// Returns the names of the locks, in the order in which they were added.
    pub fn names(&self) -> Vec<String> {
        self.proofs.names()
    }

    /// Returns the fencing token of one of the locks. Send it with every write to the resource that this lock
    /// protects.
    pub fn fencing_token(&self, lock: &str) -> Option<u64> {
        let lease = self.leases().iter().find(|lease| lease.lock_name == lock)?;
        Some(lease.fencing_token)
    }

    /// Returns when the locks count as lost unless they are renewed before.
    pub fn deadline(&self) -> Moment {
        self.tenure.deadline()
    }

    /// Returns the deadline without the margin. After this time, another client can hold one of the locks.
    pub fn end(&self) -> Moment {
        self.tenure.end()
    }

    /// Completes when the leases are renewed or end after this call. Then [`end`](Self::end) has a new value.
    pub fn renewal(&self) -> impl Future<Output = ()> + Send + use<> {
        self.tenure.change()
    }

    /// Returns `Ok` while all the locks are held. It reads the clock first.
    pub fn check(&self) -> Result<(), Lost> {
        self.tenure.check()
    }

    /// Completes when one of the locks is lost. It does not borrow the guard.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + use<> {
        let tenure = self.tenure.clone();
        async move { tenure.lost().await }
    }

    /// Returns which of the leases ended, how and why: see [`LockGuard::ending`](crate::LockGuard::ending).
    pub fn ending(&self) -> Option<&LeaseEnd> {
        self.tenure.ending()
    }

    /// Releases all the locks. No renewal is sent from here on. It retries if a failure might be temporary.
    ///
    /// [`Error::NotReleased`] means that one of the leases had ended before, and names it. Another client might have
    /// held that lock in the meantime. The other locks are released even so.
    pub async fn release(mut self) -> Result<(), Error> {
        self.stop_renewing().await;
        let result = self.proofs.release().await;
        self.is_over = true;
        result
    }

    /// Leaves all the locks held for `time` from now: see [`LockGuard::leave_for`](crate::LockGuard::leave_for).
    pub async fn leave_for(mut self, time: Duration) -> Result<(), Error> {
        check_left(time)?;
        self.stop_renewing().await;
        let result = persist(&self.proofs.client, || self.proofs.renew(time)).await;
        self.is_over = !is_refused(&result);
        result.map(drop)
    }

    /// Stops the renewals. From here on, `check` and `lost` report the locks as released.
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

held!(MultiGuard);

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
        let mut shown = f.debug_struct("MultiGuard");
        shown
            .field("names", &self.names())
            .field("owner", &self.owner())
            .field("check", &self.check());
        shown.finish_non_exhaustive()
    }
}

/// The ids and tokens that prove to the server that this client holds the leases.
#[derive(Clone)]
struct Proofs {
    client: Client,
    acquired: AcquiredAll,
}

impl GiveBack for Proofs {
    fn give_back(&self, client: &Client) -> impl Future<Output = ()> + Send {
        let proofs = Self { client: client.clone(), acquired: self.acquired.clone() };
        async move {
            if let Err(error) = proofs.release().await {
                let lock = proofs.names().join(", ");
                tracing::warn!(lock, %error, "could not release dropped locks");
            }
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

    fn names(&self) -> Vec<String> {
        self.acquired.leases.iter().map(|lease| lease.lock_name.clone()).collect()
    }

    async fn release(&self) -> Result<(), Error> {
        let (owner_id, leases) = self.leases();
        let request = ReleaseAllRequest { owner_id, leases };
        let is_repeated = AtomicBool::new(false);
        let released = persist(&self.client, async || {
            let answer = self.client.release_all(&request).await;
            if answer.as_ref().is_err_and(Error::may_have_taken_effect) {
                is_repeated.store(true, Relaxed);
            }
            answer
        });
        all_released(&released.await?, is_repeated.into_inner())
    }
}

/// Returns an error if any of the leases had ended before the release. If the release is a repetition, it might find
/// no active lease because an earlier try released them all, which is a success. The server cannot tell these cases
/// apart: it reports only what this request released.
fn all_released(answer: &ReleasedAll, is_repeated: bool) -> Result<(), Error> {
    let is_by_earlier = is_repeated && !answer.leases.iter().any(|lease| lease.released);
    let is_lost = |lease: &&ReleasedLease| {
        let has_expired = lease.reason == Some(Reason::Expired);
        !lease.released && (has_expired || !is_by_earlier)
    };
    let lost: Vec<_> = answer.leases.iter().filter(is_lost).collect();
    let Some(first) = lost.first() else { return Ok(()) };
    let names: Vec<_> = lost.iter().map(|lease| format!("{:?}", lease.lock_name)).collect();
    Err(Error::NotReleased(NotReleased {
        released: false,
        reason: first.reason.unwrap_or(Reason::NotOwner),
        error: format!("the lease of {} had ended before it was released", names.join(", ")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(leases: &[(&str, Option<Reason>)], is_repeated: bool) -> Option<String> {
        let lease = |(name, reason): &(&str, Option<Reason>)| ReleasedLease {
            lock_name: (*name).into(),
            released: reason.is_none(),
            reason: *reason,
        };
        let leases: Vec<_> = leases.iter().map(lease).collect();
        let released = leases.iter().any(|lease| lease.released);
        let answer = ReleasedAll { released, leases, error: None };
        all_released(&answer, is_repeated).err().map(|error| error.to_string())
    }

    #[test]
    fn a_lease_that_had_ended_is_distinguished_from_one_that_an_earlier_try_released() {
        const GONE: Option<Reason> = Some(Reason::NotOwner);
        assert_eq!(lost(&[("a", None), ("b", None)], false), None);
        assert!(lost(&[("a", None), ("b", GONE)], false).unwrap().contains("of \"b\" had"));
        assert!(lost(&[("a", GONE), ("b", GONE)], false).unwrap().contains("\"a\", \"b\""));
        assert_eq!(lost(&[("a", GONE), ("b", GONE)], true), None, "the try before did it");
        assert!(lost(&[("a", None), ("b", GONE)], true).is_some(), "the try before did nothing");
        let expired = lost(&[("a", GONE), ("b", Some(Reason::Expired))], true).unwrap();
        assert!(expired.contains("of \"b\" had"), "{expired}");
    }
}
