//! Generates random commands over a few locks and owners, so that they affect each other.

use std::ops::Range;

use leasehold_core::*;
use proptest::prelude::*;

/// The number of locks.
pub(crate) const N_LOCKS: u8 = 4;
/// The lock in a separate namespace.
const ELSEWHERE: u8 = 3;
/// The lock that only one of the dialects takes shares of.
const OF_SHARES: u8 = 2;
const MODES: [Mode; 4] = [Mode::Exclusive, Mode::Shared, Mode::Counted(1), Mode::Counted(2)];
const EXTENDS: [fn(Span) -> Extend; 3] = [Extend::AtLeast, Extend::Exactly, Extend::By];

/// A command before its lease is known. Leases are chosen by how recent they are.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    after_ms: u64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Acquire {
        lock: u8,
        who: Who,
        mode: u8,
        ttl: Option<u64>,
        grace: u64,
        wait: Wait,
        sticky: bool,
        keep: bool,
        session: Option<u8>,
        id: Option<u8>,
    },
    /// An acquire of several locks: the first, and these other locks and modes.
    AcquireAll {
        first: Box<What>,
        others: Vec<(u8, u8)>,
    },
    /// An exact repetition of an earlier acquire with a request id.
    Again {
        back: u8,
    },
    Cancel {
        who: Who,
        lock: Option<u8>,
        id: u8,
    },
    Renew {
        lease: u64,
        way: Way,
        who: Who,
        extend: u8,
        by: u64,
        id: Option<u8>,
    },
    RenewAll {
        leases: Vec<(u64, Way)>,
        who: Who,
        extend: u8,
        by: u64,
    },
    ReleaseAll {
        leases: Vec<(u64, Way)>,
        who: Who,
    },
    Release {
        lease: u64,
        way: Way,
        who: Who,
        id: Option<u8>,
    },
    GiveUp {
        lock: u8,
        who: Who,
    },
    RevokeLock {
        lock: u8,
    },
    RevokeLease {
        lease: u64,
        who: Who,
    },
    RevokeLeases {
        leases: Vec<u64>,
    },
    Amend {
        lease: u64,
        who: Who,
        ttl: u64,
    },
    Confirm {
        lease: u64,
        who: Who,
    },
    Leave {
        lease: u64,
    },
    StepAside {
        lease: u64,
    },
    Open {
        session: u8,
        who: Who,
        ttl: u64,
    },
    Keep {
        session: u8,
        dialect: u8,
    },
    Close {
        session: u8,
        dialect: u8,
    },
    Settle {
        lock: u8,
    },
    Sweep,
    Resume,
    Restore,
}

#[derive(Clone, Copy, Debug)]
struct Who {
    owner: u8,
    dialect: u8,
}

/// The kind of proof for a lease.
#[derive(Clone, Copy, Debug)]
enum Way {
    Id { guessed: bool },
    Number,
    Owner { lock: u8 },
    Session { lock: u8, session: u8 },
}

pub(crate) fn sequence(n: Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![4 => Just(0), 4 => 1..3000_u64, 1 => 3000..20_000_u64];
    let step = (after, what()).prop_map(|(after_ms, what)| Step { after_ms, what });
    proptest::collection::vec(step, n).prop_map(repeat)
}

/// Replaces each `Again` by the exact copy of an earlier request.
fn repeat(mut steps: Vec<Step>) -> Vec<Step> {
    for n in 0..steps.len() {
        let What::Again { back } = steps[n].what else { continue };
        let mut named = steps[..n].iter().rev().filter(|step| step.what.is_named());
        let what = named.nth(back.into()).map(|step| step.what.clone());
        steps[n].what = what.unwrap_or(What::Sweep);
    }
    steps
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        12 => acquire(),
        8 => (acquire(), proptest::collection::vec((0..3u8, mode()), 1..3))
            .prop_map(|(first, others)| What::AcquireAll { first: Box::new(first), others }),
        6 => (0..3u8).prop_map(|back| What::Again { back }),
        2 => (who(), proptest::option::of(0..3u8), 0..3u8).prop_map(|(who, lock, id)| What::Cancel { who, lock, id }),
        5 => (recent(), way(), who(), 0..3u8, 0..9u64, id())
            .prop_map(|(lease, way, who, extend, by, id)| What::Renew { lease, way, who, extend, by, id }),
        3 => (several(), who(), 0..3u8, 0..9u64)
            .prop_map(|(leases, who, extend, by)| What::RenewAll { leases, who, extend, by }),
        3 => (several(), who()).prop_map(|(leases, who)| What::ReleaseAll { leases, who }),
        1 => proptest::collection::vec(recent(), 1..4).prop_map(|leases| What::RevokeLeases { leases }),
        8 => (recent(), way(), who(), id()).prop_map(|(lease, way, who, id)| What::Release { lease, way, who, id }),
        3 => (0..N_LOCKS, who()).prop_map(|(lock, who)| What::GiveUp { lock, who }),
        1 => (0..N_LOCKS).prop_map(|lock| What::RevokeLock { lock }),
        1 => (recent(), who()).prop_map(|(lease, who)| What::RevokeLease { lease, who }),
        1 => (recent(), who(), 0..9u64).prop_map(|(lease, who, ttl)| What::Amend { lease, who, ttl }),
        2 => (recent(), who()).prop_map(|(lease, who)| What::Confirm { lease, who }),
        4 => recent().prop_map(|lease| What::Leave { lease }),
        2 => recent().prop_map(|lease| What::StepAside { lease }),
        2 => (0..2u8, who(), 1..9u64).prop_map(|(session, who, ttl)| What::Open { session, who, ttl }),
        1 => (0..2u8, 0..2u8).prop_map(|(session, dialect)| What::Keep { session, dialect }),
        1 => (0..2u8, 0..2u8).prop_map(|(session, dialect)| What::Close { session, dialect }),
        2 => (0..N_LOCKS).prop_map(|lock| What::Settle { lock }),
        4 => Just(What::Sweep),
        1 => Just(What::Resume),
        1 => any::<u8>().prop_map(|n| if n < 40 { What::Restore } else { What::Sweep }),
    ]
}

fn acquire() -> impl Strategy<Value = What> {
    let wait = prop_oneof![
        2 => Just(Wait::No),
        3 => (0..9u64).prop_map(|s| Wait::Connected(Span::from_secs(s))),
        1 => (0..9u64).prop_map(|s| Wait::Unattended(Span::from_secs(s))),
    ];
    let ttl = proptest::option::weighted(0.9, 0..9u64);
    let session = proptest::option::weighted(0.3, 0..2u8);
    let shape = (mode(), ttl, 0..5u64, wait);
    let flags = (any::<bool>(), any::<bool>(), session, id());
    (0..N_LOCKS, who(), shape, flags).prop_map(
        |(lock, who, (mode, ttl, grace, wait), (sticky, keep, session, id))| What::Acquire {
            lock,
            who,
            mode,
            ttl,
            grace,
            wait,
            sticky,
            keep,
            session,
            id,
        },
    )
}

fn mode() -> impl Strategy<Value = u8> {
    prop_oneof![5 => Just(0u8), 2 => Just(1u8), 2 => 2..4u8]
}

fn several() -> impl Strategy<Value = Vec<(u64, Way)>> {
    proptest::collection::vec((recent(), way()), 1..4)
}

fn who() -> impl Strategy<Value = Who> {
    (0..3u8, 0..2u8).prop_map(|(owner, dialect)| Who { owner, dialect })
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        6 => (0..20u8).prop_map(|n| Way::Id { guessed: n == 0 }),
        2 => Just(Way::Number),
        3 => (0..N_LOCKS).prop_map(|lock| Way::Owner { lock }),
        1 => (0..N_LOCKS, 0..2u8).prop_map(|(lock, session)| Way::Session { lock, session }),
    ]
}

fn recent() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..2u64, 2 => 0..6u64]
}

fn id() -> impl Strategy<Value = Option<u8>> {
    proptest::option::weighted(0.3, 0..3u8)
}

impl Step {
    /// Returns the time and the command of the `n`th step, in a run that has created `n_leases` leases so far.
    pub(crate) fn resolve(&self, n: usize, now: Timestamp, n_leases: u64) -> (Timestamp, Command) {
        let now = now + Span::from_millis(self.after_ms);
        let number = |recent: u64| LeaseNumber(n_leases.saturating_sub(recent));
        let command = match self.what.clone() {
            What::Acquire { .. } => {
                Command::Acquire(self.what.acquire(n, LeaseNumber(n_leases + 1)))
            }
            What::AcquireAll { first, others } => acquire_all(&first, others, n, n_leases),
            What::Cancel { who, lock, id } => Command::Cancel(Cancel {
                owner: owner(who),
                namespace: "default".into(),
                lock: lock.map(|lock| key(lock).name),
                dialect: dialect(who.dialect),
                request_id: format!("r{id}").into(),
            }),
            What::Renew { lease, way, who, extend, by, id } => Command::Renew(Renew {
                proof: way.proof(number(lease), who),
                dialect: dialect(who.dialect),
                extend: EXTENDS[extend as usize](Span::from_secs(by)),
                request_id: request_id(id),
            }),
            What::RenewAll { leases, who, extend, by } => Command::RenewAll(RenewAll {
                proofs: leases.iter().map(|(n, way)| way.proof(number(*n), who)).collect(),
                dialect: dialect(who.dialect),
                extend: EXTENDS[extend as usize](Span::from_secs(by)),
            }),
            What::ReleaseAll { leases, who } => Command::ReleaseAll(ReleaseAll {
                proofs: leases.iter().map(|(n, way)| way.proof(number(*n), who)).collect(),
                dialect: dialect(who.dialect),
            }),
            What::RevokeLeases { leases } => {
                revoke(Target::Leases(leases.into_iter().map(number).collect()))
            }
            What::Release { lease, way, who, id } => Command::Release(Release {
                proof: way.proof(number(lease), who),
                dialect: dialect(who.dialect),
                request_id: request_id(id),
            }),
            What::GiveUp { lock, who } => Command::GiveUp(GiveUp {
                lock: key(lock),
                owner: owner(who),
                dialect: dialect(who.dialect),
            }),
            What::RevokeLock { lock } => revoke(Target::Lock(key(lock))),
            What::RevokeLease { lease, who } => {
                revoke(Target::Lease(Way::Number.proof(number(lease), who), dialect(who.dialect)))
            }
            What::Amend { lease, who, ttl } => Command::Amend(Amend {
                proof: Way::Number.proof(number(lease), who),
                dialect: dialect(who.dialect),
                ttl: Span::from_secs(ttl),
            }),
            What::Confirm { lease, who } => Command::Confirm(Confirm {
                proof: Way::Number.proof(number(lease), who),
                dialect: dialect(who.dialect),
            }),
            What::Leave { lease } => Command::Leave(Leave(number(lease))),
            What::StepAside { lease } => Command::StepAside(StepAside(number(lease))),
            What::Again { .. } => unreachable!("it was replaced by what it repeats"),
            What::Settle { lock } => Command::Settle(Settle(key(lock))),
            What::Sweep => Command::Sweep(Sweep { n_changes_max: usize::MAX }),
            What::Resume => Command::Resume(Resume::ALL),
            What::Restore => Command::Restore(Restore),
            session => of_session(&session),
        };
        (now, command)
    }
}

fn acquire_all(first: &What, others: Vec<(u8, u8)>, n: usize, n_leases: u64) -> Command {
    let mut first = first.acquire(n, LeaseNumber(n_leases + 1));
    if first.lock == key(ELSEWHERE) {
        first.lock = key(0);
    }
    let other = |(n, (lock, mode)): (usize, (u8, u8))| Other {
        name: key(lock).name,
        mode: MODES[mode as usize],
        secret: secret(LeaseNumber(n_leases + 2 + n as u64)),
    };
    let others = others.into_iter().enumerate().map(other).collect();
    Command::AcquireAll(AcquireAll { first, others })
}

impl What {
    fn is_named(&self) -> bool {
        match self {
            What::Acquire { id, .. } => id.is_some(),
            What::AcquireAll { first, .. } => first.is_named(),
            _ => false,
        }
    }

    fn acquire(&self, n: usize, number: LeaseNumber) -> Acquire {
        let What::Acquire { lock, who, mode, ttl, grace, wait, sticky, keep, session, id } =
            self.clone()
        else {
            panic!("not an acquire")
        };
        Acquire {
            lock: key(lock),
            owner: owner(who),
            dialect: dialect(who.dialect),
            mode: MODES[mode as usize],
            ttl: ttl.map(Span::from_secs),
            grace: Span::from_secs(grace),
            wait,
            owner_per_lease: false,
            sticky,
            keep,
            session: session.map(digest),
            metadata: n.is_multiple_of(7).then(|| b"m".as_slice().into()),
            request_id: request_id(id),
            secret: secret(number),
            peer: peer(who),
            quota: None,
            namespace_quota: None,
            bytes_quota: None,
        }
    }
}

impl Way {
    fn proof(self, number: LeaseNumber, who: Who) -> Proof {
        match self {
            Way::Id { guessed } => {
                let secret = if guessed { Secret([255; 16]) } else { secret(number) };
                let id = LeaseId { number, secret };
                Proof::Id { id, owner: owner(who), token: None, lock: None }
            }
            Way::Number => Proof::Number { number, principal: None },
            Way::Owner { lock } => Proof::Owner { lock: key(lock), owner: owner(who) },
            Way::Session { lock, session } => {
                Proof::Session { lock: key(lock), session: digest(session), principal: None }
            }
        }
    }
}

fn of_session(what: &What) -> Command {
    match *what {
        What::Open { session, who, ttl } => Command::OpenSession(OpenSession {
            digest: digest(session),
            owner: owner(who),
            dialect: dialect(who.dialect),
            ttl: Span::from_secs(ttl),
            peer: peer(who),
            credential: None,
        }),
        What::Keep { session, dialect } => {
            let (session, dialect) = (digest(session), self::dialect(dialect));
            Command::KeepSession(KeepSession { session, principal: None, dialect })
        }
        What::Close { session, dialect } => {
            let (session, dialect) = (digest(session), self::dialect(dialect));
            Command::CloseSession(CloseSession { session, principal: None, dialect })
        }
        ref other => panic!("not about a session: {other:?}"),
    }
}

fn revoke(target: Target) -> Command {
    Command::Revoke(Revoke { target, reason: "r".into() })
}

fn request_id(id: Option<u8>) -> Option<Box<str>> {
    id.map(|id| Box::from(format!("r{id}")))
}

pub(crate) fn key(lock: u8) -> LockKey {
    let ending = if lock == OF_SHARES { "/" } else { "" };
    let namespace = if lock == ELSEWHERE { "other" } else { "default" };
    LockKey::new(namespace, format!("lock{lock}{ending}"))
}

/// Returns a dialect that locks single names, or one that locks paths and takes shares.
fn dialect(n: u8) -> Dialect {
    [Dialect(0), OF_PATHS[0]][usize::from(n)]
}

fn owner(who: Who) -> Owner {
    Owner::new("anonymous", format!("owner{}", who.owner))
}

/// Returns the peer of an owner. One owner uses different peers in different dialects.
fn peer(who: Who) -> Option<Peer> {
    (who.owner > 0).then_some(Peer(u64::from(who.owner == who.dialect)))
}

fn digest(session: u8) -> SessionDigest {
    SessionDigest([session; 32])
}

fn secret(number: LeaseNumber) -> Secret {
    Secret([number.0 as u8; 16])
}
