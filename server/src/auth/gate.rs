//! The policy in force. It is on from the start or never, and is replaced as a whole while the server runs.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use leasehold_core::Timestamp;
use tokio::sync::watch;

use super::policy::Policy;
use super::rate::Rates;
use super::{Denied, Principal};

/// How often the files are looked at. Watching them would miss the way mounted secrets are swapped.
pub const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// How many wrong credentials one address may send in a minute, if nobody says otherwise.
pub const FAILURES_PER_MINUTE: u32 = 60;

/// Whether anybody is asked who they are, and by which policy.
pub struct Gate(Option<On>, u32);

struct On {
    file: PathBuf,
    authority: RwLock<Arc<Authority>>,
    /// How often there was another policy.
    version: watch::Sender<u64>,
    /// When the files were last read and good, in wall-clock milliseconds.
    good_at: AtomicI64,
    /// For how long the files were unusable when they were last looked at, in milliseconds.
    stale_ms: AtomicI64,
    rates: Rates<Asking>,
    failures: Rates<IpAddr>,
}

/// Who is counted by how often they ask.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Asking {
    Principal(Arc<str>),
    /// Nobody knows who it is: by where it comes from.
    From(IpAddr),
}

/// A policy, as long as somebody goes by it.
pub(crate) struct Authority {
    policy: Policy,
    gate: Weak<Gate>,
}

impl Deref for Authority {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        &self.policy
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "policy {}", self.policy.hash())
    }
}

impl Authority {
    pub(super) fn gate(&self) -> Option<Arc<Gate>> {
        self.gate.upgrade()
    }
}

/// Which files are in force?
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadAuth;

/// What came of looking at the files again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reloaded {
    /// They are as they were.
    Same,
    /// There is another policy now.
    New,
    /// They cannot be used, for this reason; the old policy stays.
    Bad(String),
}

impl Gate {
    /// Nobody is asked.
    pub fn off() -> Arc<Self> {
        Arc::new(Self(None, FAILURES_PER_MINUTE))
    }

    /// Everybody is asked, by what this file says.
    pub fn load(file: &Path, failures_per_minute: u32) -> Result<Arc<Self>, String> {
        let policy = Policy::load(file)?;
        Ok(Arc::new_cyclic(|gate| {
            let authority = Arc::new(Authority { policy, gate: gate.clone() });
            Self(
                Some(On {
                    file: file.into(),
                    authority: RwLock::new(authority),
                    version: watch::Sender::new(0),
                    good_at: AtomicI64::new(i64::MAX),
                    stale_ms: AtomicI64::new(0),
                    rates: Rates::default(),
                    failures: Rates::default(),
                }),
                failures_per_minute,
            )
        }))
    }

    /// Is anybody asked?
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Of the files in force.
    pub fn hash(&self) -> Option<String> {
        self.authority().map(|authority| authority.hash().to_owned())
    }

    pub(crate) fn authority(&self) -> Option<Arc<Authority>> {
        let on = self.0.as_ref()?;
        Some(on.authority.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Rings whenever there is another policy. `None`: there never is.
    pub(super) fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.0.as_ref().map(|on| on.version.subscribe())
    }

    /// Looks at the files again. All of them are good, or nothing changes. This blocks.
    pub fn reload(self: &Arc<Self>) -> Reloaded {
        let Some(on) = &self.0 else { return Reloaded::Same };
        let policy = match Policy::load(&on.file) {
            Ok(policy) => policy,
            Err(why) => return Reloaded::Bad(why),
        };
        if self.hash().as_deref() == Some(policy.hash()) {
            return Reloaded::Same;
        }
        let authority = Arc::new(Authority { policy, gate: Arc::downgrade(self) });
        *on.authority.write().unwrap_or_else(PoisonError::into_inner) = authority;
        on.version.send_modify(|version| *version += 1);
        Reloaded::New
    }

    /// For how long the files have been unusable, in milliseconds.
    pub(crate) fn note(&self, reloaded: &Reloaded, wall_ms: i64) -> i64 {
        let Some(on) = &self.0 else { return 0 };
        let stale_ms = match reloaded {
            Reloaded::Bad(_) => {
                // They were good at the start.
                let _ = on.good_at.compare_exchange(i64::MAX, wall_ms, Relaxed, Relaxed);
                wall_ms.saturating_sub(on.good_at.load(Relaxed)).max(0)
            }
            Reloaded::Same | Reloaded::New => {
                on.good_at.store(wall_ms, Relaxed);
                0
            }
        };
        on.stale_ms.store(stale_ms, Relaxed);
        stale_ms
    }

    /// For how long the files have been unusable, when they were last looked at.
    pub(crate) fn stale_ms(&self) -> u64 {
        self.0.as_ref().map_or(0, |on| on.stale_ms.load(Relaxed).max(0) as u64)
    }

    /// One more request of this principal, if that is not too many. Those nobody knows are told apart by where they
    /// come from.
    pub(crate) fn take_request(
        &self,
        who: &Principal,
        from: impl FnOnce() -> IpAddr,
        now: Timestamp,
    ) -> Result<(), Denied> {
        let Some(on) = &self.0 else { return Ok(()) };
        let authority = on.authority.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(quota) = authority.quota(who) else { return Ok(()) };
        let Some(n) = quota.requests_per_second else { return Ok(()) };
        let asking = match who.is_anonymous() {
            true => Asking::From(peer(from())),
            false => Asking::Principal(who.name().clone()),
        };
        let taken = on.rates.take(asking, now, n, Duration::from_secs(1));
        taken.map_err(|wait| {
            let (who, line) = (who.name(), quota.line);
            let why = format!(
                "too many requests of {who}: {n} a second allowed (quota in auth-file, line {line})"
            );
            Denied::TooOften(why, wait)
        })
    }

    /// One more credential from there that was no good. Too many are told so instead of why.
    pub(crate) fn take_failure(&self, from: IpAddr, now: Timestamp) -> Result<(), Denied> {
        let Some(on) = &self.0 else { return Ok(()) };
        let n = self.failures_per_minute();
        let taken = on.failures.take(peer(from), now, n, Duration::from_secs(60));
        taken.map_err(|wait| {
            let why = format!(
                "too many credentials from this address were wrong: {n} a minute allowed (auth-failures-per-minute)"
            );
            Denied::TooOften(why, wait)
        })
    }

    fn failures_per_minute(&self) -> u32 {
        self.1
    }
}

/// Whoever has an IPv6 network of 64 bits can choose the rest.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        address => address,
    }
}
