//! What one operation costs while 1 thousand, 100 thousand and 1 million other locks are held.
//!
//! `cargo bench -p leasehold-core`: the 1 M column should stay below twice the 1 k column.

use divan::Bencher;
use leasehold_core::*;

const HELD: [u64; 3] = [1_000, 100_000, 1_000_000];
const DIALECT: Dialect = Dialect(0);

fn main() {
    divan::main();
}

#[divan::bench(args = HELD, sample_size = 200)]
fn acquire_and_release_a_new_name(bencher: Bencher<'_, '_>, n_held: u64) {
    let mut world = World::holding(n_held);
    let mut n = n_held;
    bencher.bench_local(|| {
        n += 1;
        let id = world.acquire(n, Span::from_secs(3600));
        world.release(id);
        world.sweep(4)
    });
}

#[divan::bench(args = HELD, sample_size = 200)]
fn acquire_and_release_a_known_name(bencher: Bencher<'_, '_>, n_held: u64) {
    let mut world = World::holding(n_held);
    bencher.bench_local(|| {
        let id = world.acquire(0, Span::from_secs(3600));
        world.release(id);
    });
}

/// Heartbeats come in the order in which the leases were granted.
#[divan::bench(args = HELD, sample_size = 200)]
fn renew_in_turn(bencher: Bencher<'_, '_>, n_held: u64) {
    let mut world = World::holding(n_held);
    let mut n = 0_u64;
    bencher.bench_local(|| {
        n += 1;
        world.renew(n % n_held + 1)
    });
}

/// The worst case: every renewal is of a lease that no cache remembers.
#[divan::bench(args = HELD, sample_size = 200)]
fn renew_at_random(bencher: Bencher<'_, '_>, n_held: u64) {
    let mut world = World::holding(n_held);
    let mut n = 0_u64;
    bencher.bench_local(|| {
        n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        world.renew((n >> 33) % n_held + 1)
    });
}

#[divan::bench(args = HELD, sample_size = 200)]
fn expire_one(bencher: Bencher<'_, '_>, n_held: u64) {
    let mut world = World::holding(n_held);
    let mut n = n_held;
    bencher.bench_local(|| {
        n += 1;
        world.acquire(n, Span::from_nanos(1));
        world.now = world.now + Span::from_nanos(1);
        world.sweep(4)
    });
}

/// A queue of this length: a waiter joins at its end, and a waiter leaves from its middle.
#[divan::bench(args = [100, 10_000, 100_000], sample_size = 50)]
fn join_and_leave_a_queue(bencher: Bencher<'_, '_>, n_waiting: u64) {
    let mut world = World::holding(1);
    let first = (1..n_waiting).map(|_| world.wait_for(1)).min().unwrap_or(LeaseNumber(1));
    let mut n = 0;
    bencher.bench_local(|| {
        world.wait_for(1);
        n += 1;
        world.machine.apply(world.now, Leave(LeaseNumber(first.0 + n_waiting / 2 + n)))
    });
}

/// A slice of 256 out of the end of a session with this many leases.
#[divan::bench(args = [1_000, 100_000], sample_count = 1, sample_size = 1)]
fn a_slice_of_a_sessions_end(bencher: Bencher<'_, '_>, n_leases: u64) {
    let mut world = World::with_session(n_leases);
    bencher.bench_local(|| world.sweep(256));
}

/// A slice of 256 out of a million leases that expire at one instant.
#[divan::bench(args = [1_000, 1_000_000], sample_count = 3, sample_size = 1)]
fn a_slice_of_a_mass_expiry(bencher: Bencher<'_, '_>, n_held: u64) {
    let mut world = World::holding(n_held);
    world.now = world.now + Span::from_secs(7200);
    bencher.bench_local(|| world.sweep(256));
}

struct World {
    machine: Machine,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        Self { machine: Machine::new(Limits::default(), 1), now: Timestamp::ZERO }
    }

    fn holding(n_held: u64) -> Self {
        let mut world = Self::new();
        for n in 1..=n_held {
            world.acquire(n, Span::from_secs(7200));
        }
        world
    }

    fn with_session(n_leases: u64) -> Self {
        let mut world = Self::new();
        let session = SessionDigest([1; 32]);
        let ttl = Span::from_secs(60);
        let open = OpenSession {
            digest: session,
            owner: owner(),
            dialect: DIALECT,
            ttl,
            peer: None,
            credential: None,
        };
        world.machine.apply(world.now, open);
        for n in 1..=n_leases {
            let acquire = Acquire { session: Some(session), ttl: None, ..acquire(n) };
            world.machine.apply(world.now, acquire);
        }
        let close = CloseSession { session, principal: None, dialect: DIALECT };
        world.machine.apply(world.now, close);
        world
    }

    fn acquire(&mut self, n: u64, ttl: Span) -> LeaseId {
        let acquire = Acquire { ttl: Some(ttl), ..acquire(n) };
        let applied = self.machine.apply(self.now, acquire);
        match applied.outcome {
            Ok(Acquired::Granted(grant)) => grant.lease.id,
            other => panic!("{other:?}"),
        }
    }

    fn wait_for(&mut self, n: u64) -> LeaseNumber {
        let acquire = Acquire { wait: Wait::Connected(Span::from_secs(3600)), ..acquire(n) };
        let applied = self.machine.apply(self.now, acquire);
        match applied.outcome {
            Ok(Acquired::Queued(number)) => number,
            other => panic!("{other:?}"),
        }
    }

    fn renew(&mut self, number: u64) -> Applied<Box<LeaseView>> {
        let id = LeaseId { number: LeaseNumber(number), secret: Secret([7; 16]) };
        self.now = self.now + Span::from_nanos(100);
        let extend = Extend::AtLeast(Span::from_secs(7200));
        let renew = Renew { proof: proof(id), dialect: DIALECT, extend, request_id: None };
        let applied = self.machine.apply(self.now, renew);
        assert!(applied.outcome.is_ok());
        applied
    }

    fn release(&mut self, id: LeaseId) {
        let release = Release { proof: proof(id), dialect: DIALECT, request_id: None };
        assert!(self.machine.apply(self.now, release).outcome.is_ok());
    }

    fn sweep(&mut self, n_changes_max: usize) -> Applied<Swept> {
        self.machine.apply(self.now, Sweep { n_changes_max })
    }
}

fn acquire(n: u64) -> Acquire {
    let lock = LockKey::new("default", format!("orders/{n:010}"));
    let ttl = Some(Span::from_secs(60));
    Acquire { ttl, ..Acquire::new(lock, owner(), DIALECT, Secret([7; 16])) }
}

fn proof(id: LeaseId) -> Proof {
    Proof::Id { id, owner: owner(), token: None, lock: None }
}

fn owner() -> Owner {
    Owner::new("anonymous", "worker-1")
}
