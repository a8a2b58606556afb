//! The policy in force: whether clients must authenticate, and by which auth file.
//!
//! Authentication is on or off for the whole life of the process. A changed auth file replaces the policy as a whole.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, RwLock, Weak};
use std::time::Duration;

use leasehold_base::sync::{read, write};
use leasehold_core::Timestamp;
use tokio::sync::watch;

use super::issuer::{Doubt, Issuer, IssuerState};
use super::policy::{Mtls, Oidc, Policy};
use super::rate::Rates;
use super::sign_in::SignIns;
use super::ticket::Seal;
use super::waits::Waits;
use super::{Caller, Denied, Principal, proxy};

/// How often the auth and TLS files are re-read. File system notifications would miss the way mounted secrets are
/// swapped.
pub const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// Limits on authentication attempts and on cached credentials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Maximum wrong credentials from one address per minute.
    pub failures_per_minute: u32,
    /// Maximum token lookups at issuers that one address can cause per minute.
    pub lookups_per_minute: u32,
    /// Maximum cached tokens, per issuer and kind of token (signed or opaque).
    pub tokens_max: usize,
    /// Maximum number of console sessions.
    pub sign_ins_max: usize,
    /// Maximum age of an issuer's keys that cannot be fetched again.
    pub keys_age_max: Duration,
}

impl Bounds {
    /// The limits used unless configured otherwise.
    pub const DEFAULT: Self = Self {
        failures_per_minute: 60,
        lookups_per_minute: 600,
        tokens_max: 10_000,
        sign_ins_max: 10_000,
        keys_age_max: Duration::from_secs(24 * 3600),
    };
}

impl Default for Bounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The authentication state of a server: off, or on with the policy in force.
pub struct Gate(Option<On>, Bounds);

struct On {
    file: PathBuf,
    authority: RwLock<Arc<Authority>>,
    /// Incremented when the policy changes and when a user signs out; wakes tasks that must re-check a caller.
    version: watch::Sender<u64>,
    /// Number of policy changes.
    epoch: AtomicU64,
    /// When the files were last loaded successfully, in wall-clock milliseconds; `i64::MAX` before the first reload.
    good_at: AtomicI64,
    /// How long the files had been unusable at the last reload, in milliseconds.
    stale_ms: AtomicI64,
    rates: Rates<Asking>,
    failures: Rates<IpAddr>,
    lookups: Rates<IpAddr>,
    sign_ins: SignIns,
    waits: Waits,
    seal: Seal,
}

/// Key by which requests are counted for rate limits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Asking {
    Principal(Arc<str>),
    /// An anonymous client, counted by IP address.
    From(IpAddr),
}

/// A loaded policy with the runtime state of its issuers. Callers keep the one they were identified under.
pub struct Authority {
    policy: Policy,
    issuers: Vec<Arc<Issuer>>,
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
    /// Creates the runtime state for `policy`. Issuers whose configuration is unchanged keep their keys and cached
    /// tokens.
    fn new(policy: Policy, gate: Weak<Gate>, before: &[Arc<Issuer>], bounds: Bounds) -> Arc<Self> {
        let issuer = |config: &Oidc| {
            let same = before.iter().find(|before| before.config() == config);
            let new = || Arc::new(Issuer::new(config.clone(), bounds, gate.clone()));
            same.cloned().unwrap_or_else(new)
        };
        let issuers = policy.issuers().iter().map(issuer).collect();
        Arc::new(Self { policy, issuers, gate })
    }

    pub(super) fn gate(&self) -> Option<Arc<Gate>> {
        self.gate.upgrade()
    }

    /// Returns the token issuers of this policy.
    pub fn issuers(&self) -> &[Arc<Issuer>] {
        &self.issuers
    }

    /// Returns whether the credential that identified `who` is still valid under this policy.
    pub(super) fn vouches(&self, who: &Principal, wall_ms: i64) -> bool {
        let (name, credential) = (&**who.name(), &**who.credential());
        if who.is_anonymous() {
            return true;
        }
        if who.is_over(wall_ms) {
            return false;
        }
        match credential.split_once(':').map_or((credential, ""), |(kind, rest)| (kind, rest)) {
            ("oidc", _) => self.issuers.iter().any(|issuer| issuer.vouches(who)),
            (proxy::NAME, "") => self.policy.proxy().is_some() && is_of_proxy(name),
            ("console", id) => self.gate().is_some_and(|gate| gate.is_signed_in(id, self, wall_ms)),
            _ => self.policy.has_key(credential, name, wall_ms),
        }
    }

    /// Returns whether the credential of `who` has an end time, so that it can expire without a policy change.
    pub(super) fn is_passing(&self, who: &Principal) -> bool {
        who.ends_ms().is_some() || self.policy.key_expiry(who.credential()).is_some()
    }
}

/// Request for the hash of the auth files in force; needs the admin right.
#[derive(Clone, Copy, Debug)]
pub struct ReadAuth;

/// The result of re-reading the auth files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reloaded {
    /// The files are unchanged.
    Same,
    /// The files changed, and the new policy is in force.
    New,
    /// The files are invalid, for this reason. The previous policy stays in force.
    Bad(String),
}

impl Gate {
    /// Returns a gate with authentication off: every client has full access.
    pub fn off() -> Arc<Self> {
        Arc::new(Self(None, Bounds::default()))
    }

    /// Loads the auth file and returns a gate with authentication on.
    pub fn load(file: &Path, bounds: Bounds) -> Result<Arc<Self>, String> {
        let policy = Policy::load(file)?;
        Ok(Arc::new_cyclic(|gate| {
            let authority = Authority::new(policy, gate.clone(), &[], bounds);
            Self(
                Some(On {
                    file: file.into(),
                    authority: RwLock::new(authority),
                    version: watch::Sender::new(0),
                    epoch: AtomicU64::new(0),
                    good_at: AtomicI64::new(i64::MAX),
                    stale_ms: AtomicI64::new(0),
                    rates: Rates::default(),
                    failures: Rates::default(),
                    lookups: Rates::default(),
                    sign_ins: SignIns::new(bounds.sign_ins_max),
                    waits: Waits::default(),
                    seal: Seal::draw(),
                }),
                bounds,
            )
        }))
    }

    /// Returns whether authentication is on.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the hash of the auth files in force, or `None` if authentication is off.
    pub fn hash(&self) -> Option<String> {
        self.authority().map(|authority| authority.hash().to_owned())
    }

    /// Returns the `[mtls]` settings in force: the CA for client certificates, if there is one.
    pub fn mtls(&self) -> Option<Arc<Mtls>> {
        self.authority()?.mtls().cloned()
    }

    /// Returns the policy in force, or `None` if authentication is off.
    pub fn authority(&self) -> Option<Arc<Authority>> {
        let on = self.0.as_ref()?;
        Some(read(&on.authority).clone())
    }

    /// Returns the number of policy changes so far, or `None` if authentication is off.
    pub fn epoch(&self) -> Option<u64> {
        self.0.as_ref().map(|on| on.epoch.load(Acquire))
    }

    /// Returns a receiver that is notified when the policy changes and when a user signs out; `None` if authentication
    /// is off.
    pub fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.0.as_ref().map(|on| on.version.subscribe())
    }

    /// Returns the console sessions, or `None` if authentication is off.
    pub fn sign_ins(&self) -> Option<&SignIns> {
        self.0.as_ref().map(|on| &on.sign_ins)
    }

    /// Returns the key that signs tickets, or `None` if authentication is off.
    pub(super) fn seal(&self) -> Option<&Seal> {
        self.0.as_ref().map(|on| &on.seal)
    }

    /// Returns the credentials of disconnected waiters, or `None` if authentication is off.
    pub(super) fn waits(&self) -> Option<&Waits> {
        self.0.as_ref().map(|on| &on.waits)
    }

    /// Returns whether enough entries of ended waits accumulated to make a review worthwhile.
    pub fn has_many_waits(&self) -> bool {
        self.waits().is_some_and(Waits::are_many)
    }

    fn is_signed_in(&self, id: &str, authority: &Authority, wall_ms: i64) -> bool {
        let sign_ins = self.sign_ins();
        sign_ins.is_some_and(|sign_ins| sign_ins.is_there(id, authority, wall_ms))
    }

    /// Wakes every task that watches a caller's rights, so that it re-checks them.
    pub fn ring(&self) {
        if let Some(on) = &self.0 {
            on.version.send_modify(|version| *version += 1);
        }
    }

    /// Starts fetching the keys of every issuer whose keys are due for a refresh.
    pub fn tend(&self, now: Timestamp) {
        let authority = self.authority();
        authority.iter().flat_map(|on| on.issuers()).for_each(|issuer| issuer.tend(now));
    }

    /// Returns the state of all issuers, with their names.
    pub fn issuer_states(&self, now: Timestamp) -> Vec<(String, IssuerState)> {
        let authority = self.authority();
        let issuers = authority.iter().flat_map(|on| on.issuers());
        issuers.map(|issuer| (issuer.config().name.to_string(), issuer.state(now))).collect()
    }

    /// Re-reads the auth files, and replaces the policy if all of them are valid. This call blocks.
    pub fn reload(self: &Arc<Self>) -> Reloaded {
        let Some(on) = &self.0 else { return Reloaded::Same };
        let policy = match Policy::load(&on.file) {
            Ok(policy) => policy,
            Err(why) => return Reloaded::Bad(why),
        };
        if self.hash().as_deref() == Some(policy.hash()) {
            return Reloaded::Same;
        }
        let before = self.authority();
        let before = before.as_ref().map_or(&[][..], |before| &before.issuers);
        let authority = Authority::new(policy, Arc::downgrade(self), before, self.1);
        let mut current = write(&on.authority);
        *current = authority;
        // Before readers can see the new policy: a connection that was identified under the old epoch must not use its
        // cached identity under the new policy.
        on.epoch.fetch_add(1, Release);
        drop(current);
        on.version.send_modify(|version| *version += 1);
        Reloaded::New
    }

    /// Records the result of a reload. Returns how long the files have been unusable, in milliseconds.
    pub fn note(&self, reloaded: &Reloaded, wall_ms: i64) -> i64 {
        let Some(on) = &self.0 else { return 0 };
        let stale_ms = match reloaded {
            Reloaded::Bad(_) => {
                // The files were valid at startup.
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

    /// Returns how long the files had been unusable at the last reload, in milliseconds.
    pub fn stale_ms(&self) -> u64 {
        self.0.as_ref().map_or(0, |on| on.stale_ms.load(Relaxed).max(0) as u64)
    }

    /// Counts a request against the caller's rate quota. Fails if the quota is used up.
    ///
    /// Anonymous clients are counted by the address that `from` returns.
    pub fn take_request(
        &self,
        caller: &Caller,
        from: impl FnOnce() -> IpAddr,
        now: Timestamp,
    ) -> Result<(), Denied> {
        let Some(on) = &self.0 else { return Ok(()) };
        let Some(quota) = caller.quota() else { return Ok(()) };
        let who = caller.principal();
        let Some(n) = quota.requests_per_second else { return Ok(()) };
        let asking = match who.is_anonymous() {
            true => Asking::From(peer(from())),
            false => Asking::Principal(who.name().clone()),
        };
        let taken = on.rates.take(asking, now, n, Duration::from_secs(1));
        taken.map_err(|late| {
            let (who, line) = (who.name(), quota.line);
            let why = format!(
                "too many requests of {who}; limit: {n} per second (quota in auth-file, line {line})"
            );
            Denied::TooOften(late.why(why), late.wait())
        })
    }

    /// Counts a wrong credential from this address. Fails if there were too many; the client then gets that error
    /// instead of the reason why its credential is wrong.
    pub fn take_failure(&self, from: IpAddr, now: Timestamp) -> Result<(), Denied> {
        let Some(on) = &self.0 else { return Ok(()) };
        let n = self.1.failures_per_minute;
        let taken = on.failures.take(peer(from), now, n, Duration::from_secs(60));
        taken.map_err(|late| {
            let why = format!(
                "too many wrong credentials from this address; limit: {n} per minute (auth-failures-per-minute)"
            );
            Denied::TooOften(late.why(why), late.wait())
        })
    }

    /// Counts a token lookup that this address causes at an issuer. Fails if there were too many.
    pub(super) fn take_lookup(&self, from: IpAddr, now: Timestamp) -> Result<(), Doubt> {
        let Some(on) = &self.0 else { return Ok(()) };
        let n = self.1.lookups_per_minute;
        let taken = on.lookups.take(peer(from), now, n, Duration::from_secs(60));
        taken.map_err(|late| {
            let why = format!(
                "too many token lookups from this address; limit: {n} per minute (auth-lookups-per-minute)"
            );
            Doubt::TooOften(late.why(why), late.wait())
        })
    }
}

fn is_of_proxy(principal: &str) -> bool {
    principal.strip_prefix(proxy::NAME).is_some_and(|rest| rest.starts_with(':'))
}

/// Returns the address by which a client is counted. For IPv6 it is the /64 network, because a client can choose the
/// other 64 bits freely.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        address => address,
    }
}
