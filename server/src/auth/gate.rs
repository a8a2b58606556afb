//! The policy in force. It is on from the start or never, and is replaced as a whole while the server runs.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, RwLock, Weak};
use std::time::Duration;

use leasehold_core::Timestamp;
use tokio::sync::watch;

use super::issuer::{Doubt, Issuer, IssuerState};
use super::policy::{Mtls, Oidc, Policy};
use super::rate::Rates;
use super::sign_in::SignIns;
use super::ticket::Seal;
use super::waits::Waits;
use super::{Caller, Denied, Principal, proxy};
use crate::sync::{read, write};

/// How often the files are looked at. Watching them would miss the way mounted secrets are swapped.
pub const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// How much may be asked, and how much is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// How many wrong credentials one address may send in a minute.
    pub failures_per_minute: u32,
    /// How many questions to issuers of tokens one address may cause in a minute.
    pub lookups_per_minute: u32,
    /// Most tokens that are remembered, of each issuer and kind.
    pub tokens_max: usize,
    /// Most people who are signed in.
    pub sign_ins_max: usize,
    /// Maximum age of an issuer's keys that cannot be fetched again.
    pub keys_age_max: Duration,
}

impl Bounds {
    /// If nobody says otherwise.
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

/// Whether anybody is asked who they are, and by which policy.
pub struct Gate(Option<On>, Bounds);

struct On {
    file: PathBuf,
    authority: RwLock<Arc<Authority>>,
    /// Rings when there is another policy, and when somebody signs out.
    version: watch::Sender<u64>,
    /// How often there was another policy.
    epoch: AtomicU64,
    /// When the files were last read and good, in wall-clock milliseconds.
    good_at: AtomicI64,
    /// For how long the files were unusable when they were last looked at, in milliseconds.
    stale_ms: AtomicI64,
    rates: Rates<Asking>,
    failures: Rates<IpAddr>,
    lookups: Rates<IpAddr>,
    sign_ins: SignIns,
    waits: Waits,
    seal: Seal,
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
    /// What was known of those whose tokens are believed stays known, as long as the file says the same of them.
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

    /// Those whose tokens are believed.
    pub(crate) fn issuers(&self) -> &[Arc<Issuer>] {
        &self.issuers
    }

    /// Does what somebody was let in by still count?
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

    /// Does it end by itself, or by something else than another policy?
    pub(super) fn is_passing(&self, who: &Principal) -> bool {
        who.ends_ms().is_some() || self.policy.key_expiry(who.credential()).is_some()
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
        Arc::new(Self(None, Bounds::default()))
    }

    /// Everybody is asked, by what this file says.
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

    /// Is anybody asked?
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Of the files in force.
    pub fn hash(&self) -> Option<String> {
        self.authority().map(|authority| authority.hash().to_owned())
    }

    /// Whose certificates clients may show, if any.
    pub(crate) fn mtls(&self) -> Option<Arc<Mtls>> {
        self.authority()?.mtls().cloned()
    }

    pub(crate) fn authority(&self) -> Option<Arc<Authority>> {
        let on = self.0.as_ref()?;
        Some(read(&on.authority).clone())
    }

    /// How often there was another policy. `None`: nobody is asked who they are.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.0.as_ref().map(|on| on.epoch.load(Acquire))
    }

    /// Rings whenever there is another policy, and when somebody signs out. `None`: there never is.
    pub(super) fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.0.as_ref().map(|on| on.version.subscribe())
    }

    /// Those who are signed in. `None`: nobody can be.
    pub(crate) fn sign_ins(&self) -> Option<&SignIns> {
        self.0.as_ref().map(|on| &on.sign_ins)
    }

    /// What tickets are signed with. `None`: nobody needs one.
    pub(super) fn seal(&self) -> Option<&Seal> {
        self.0.as_ref().map(|on| &on.seal)
    }

    /// Who waits without being connected. `None`: it does not matter who they are.
    pub(super) fn waits(&self) -> Option<&Waits> {
        self.0.as_ref().map(|on| &on.waits)
    }

    fn is_signed_in(&self, id: &str, authority: &Authority, wall_ms: i64) -> bool {
        let sign_ins = self.sign_ins();
        sign_ins.is_some_and(|sign_ins| sign_ins.is_there(id, authority, wall_ms))
    }

    /// Has whoever waits look again whether they still may.
    pub(crate) fn ring(&self) {
        if let Some(on) = &self.0 {
            on.version.send_modify(|version| *version += 1);
        }
    }

    /// Has the keys of issuers fetched that are due.
    pub(crate) fn tend(&self, now: Timestamp) {
        let authority = self.authority();
        authority.iter().flat_map(|on| on.issuers()).for_each(|issuer| issuer.tend(now));
    }

    /// The state of all issuers, by issuer name.
    pub(crate) fn issuer_states(&self, now: Timestamp) -> Vec<(String, IssuerState)> {
        let authority = self.authority();
        let issuers = authority.iter().flat_map(|on| on.issuers());
        issuers.map(|issuer| (issuer.config().name.to_string(), issuer.state(now))).collect()
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
        let before = self.authority();
        let before = before.as_ref().map_or(&[][..], |before| &before.issuers);
        let authority = Authority::new(policy, Arc::downgrade(self), before, self.1);
        let mut current = write(&on.authority);
        *current = authority;
        // Before anybody can see the new policy: whoever was told of it is nowhere taken for what they were before.
        on.epoch.fetch_add(1, Release);
        drop(current);
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
                "too many requests of {who}: {n} a second allowed (quota in auth-file, line {line})"
            );
            Denied::TooOften(late.why(why), late.wait())
        })
    }

    /// One more credential from there that was no good. Too many are told so instead of why.
    pub(crate) fn take_failure(&self, from: IpAddr, now: Timestamp) -> Result<(), Denied> {
        let Some(on) = &self.0 else { return Ok(()) };
        let n = self.1.failures_per_minute;
        let taken = on.failures.take(peer(from), now, n, Duration::from_secs(60));
        taken.map_err(|late| {
            let why = format!(
                "too many credentials from this address were wrong: {n} a minute allowed (auth-failures-per-minute)"
            );
            Denied::TooOften(late.why(why), late.wait())
        })
    }

    /// One more question to an issuer, for somebody there.
    pub(super) fn take_lookup(&self, from: IpAddr, now: Timestamp) -> Result<(), Doubt> {
        let Some(on) = &self.0 else { return Ok(()) };
        let n = self.1.lookups_per_minute;
        let taken = on.lookups.take(peer(from), now, n, Duration::from_secs(60));
        taken.map_err(|late| {
            let why = format!(
                "too many tokens from this address had to be asked for: {n} a minute allowed (auth-lookups-per-minute)"
            );
            Doubt::TooOften(late.why(why), late.wait())
        })
    }
}

fn is_of_proxy(principal: &str) -> bool {
    principal.strip_prefix(proxy::NAME).is_some_and(|rest| rest.starts_with(':'))
}

/// Whoever has an IPv6 network of 64 bits can choose the rest.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        address => address,
    }
}
