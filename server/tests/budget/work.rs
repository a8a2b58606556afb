//! Measured work in the engine, all on one thread, from the request to the response.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_base::clock::FakeClock;
use leasehold_core::{
    Acquire, Dialect, Extend, LeaseId, LockKey, Owner, Proof, Release, Renew, Secret, Span, Token,
};
use leasehold_engine::{Ask, Call, EngineHandle, Options, Stepped, Take};
use leasehold_server::metrics::Metrics;
use leasehold_store::Store;
use leasehold_store::memory::MemoryStore;
use leasehold_store::sqlite::{self, SqliteStore};
use leasehold_testkit::{TempDir, folder};

pub(crate) const STORES: [&str; 2] = ["memory", "sqlite"];

/// The requests of a workload, and the number of concurrent clients.
#[derive(Clone, Copy)]
pub(crate) enum Workload {
    /// One client acquires a lock and releases it.
    CycleOf1,
    /// 64 clients each acquire a lock and release it.
    CycleOf64,
    /// 64 clients each renew a lock that they hold.
    RenewalsOf64,
    /// 64 clients each try to acquire a lock that another client holds.
    RefusalsOf64,
}

impl Workload {
    pub(crate) const ALL: [Self; 4] =
        [Self::CycleOf1, Self::CycleOf64, Self::RenewalsOf64, Self::RefusalsOf64];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CycleOf1 => "cycle-1",
            Self::CycleOf64 => "cycle-64",
            Self::RenewalsOf64 => "renew-64",
            Self::RefusalsOf64 => "refuse-64",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|known| known.name() == name).expect("a workload")
    }

    fn n_clients(self) -> usize {
        if matches!(self, Self::CycleOf1) { 1 } else { 64 }
    }
}

/// An engine and its clients.
pub(crate) struct Bench {
    workload: Workload,
    engine: Stepped,
    handle: EngineHandle,
    held: Vec<(LeaseId, Token)>,
    _folder: TempDir,
}

impl Bench {
    pub(crate) fn start(store: &str, workload: Workload) -> Self {
        let folder = folder();
        let store: Box<dyn Store> = match store {
            "memory" => Box::new(MemoryStore::default()),
            _ => {
                // No fold happens, because that is another thread's work.
                let fold_interval = Duration::from_secs(3600);
                let (data, history) = (folder.path().join("data"), Default::default());
                let space = sqlite::Space::unwatched();
                let options = sqlite::Options { data, fold_interval, history, space };
                Box::new(SqliteStore::open(options).expect("a store"))
            }
        };
        let (clock, metrics) = (
            Arc::new(FakeClock::default()),
            Arc::new(Metrics::new(leasehold_server::dialect::NAMES)),
        );
        let (engine, handle) =
            Stepped::start(Options::default(), store, clock, metrics.engine.clone())
                .expect("a start");
        let mut bench = Self { workload, engine, handle, held: Vec::new(), _folder: folder };
        if matches!(workload, Workload::RenewalsOf64 | Workload::RefusalsOf64) {
            bench.held = bench.acquire();
        }
        bench
    }

    /// Returns the number of requests in `n_rounds` rounds.
    pub(crate) fn n_requests(&self, n_rounds: usize) -> f64 {
        let is_cycle = matches!(self.workload, Workload::CycleOf1 | Workload::CycleOf64);
        let n_each = if is_cycle { 2 } else { 1 };
        (n_rounds * n_each * self.workload.n_clients()) as f64
    }

    pub(crate) fn run(&mut self, n_rounds: usize) {
        for _ in 0..n_rounds {
            match self.workload {
                Workload::CycleOf1 | Workload::CycleOf64 => {
                    self.held = self.acquire();
                    self.release();
                }
                Workload::RenewalsOf64 => self.renew(),
                Workload::RefusalsOf64 => self.be_refused(),
            }
        }
    }

    fn acquire(&mut self) -> Vec<(LeaseId, Token)> {
        let granted = self.ask(|n, _| acquire(n, "a"));
        let granted = granted.into_iter().map(|grant| grant.expect("a grant").deliver().lease);
        granted.map(|lease| (lease.id, lease.token)).collect()
    }

    fn release(&mut self) {
        let release =
            |n, held| Release { proof: proof(n, held), dialect: DIALECT, request_id: None };
        assert!(self.ask(release).iter().all(Result::is_ok));
    }

    fn renew(&mut self) {
        let extend = Extend::AtLeast(Span::from_secs(60));
        let renew =
            |n, held| Renew { proof: proof(n, held), dialect: DIALECT, extend, request_id: None };
        assert!(self.ask(renew).iter().all(Result::is_ok));
    }

    fn be_refused(&mut self) {
        assert!(self.ask(|n, _| acquire(n, "b")).iter().all(Result::is_err));
    }

    /// Sends one request per client, runs one engine round, and returns the answers.
    fn ask<A: Ask>(
        &mut self,
        ask: impl Fn(usize, Option<(LeaseId, Token)>) -> A,
    ) -> Vec<A::Answer> {
        let calls: Vec<_> = (0..self.workload.n_clients())
            .map(|n| self.handle.ask_unchecked(ask(n, self.held.get(n).copied())))
            .collect();
        assert!(self.engine.turn().is_some(), "it goes on");
        calls.into_iter().map(answer).collect()
    }
}

const DIALECT: Dialect = Dialect(0);

fn answer<A: Ask>(call: Call<A>) -> A::Answer {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Ready(Err(error)) => panic!("{error}"),
        Poll::Pending => panic!("no answer"),
    }
}

fn lock(n: usize) -> LockKey {
    LockKey::new("default", format!("orders/{n:010}"))
}

fn owner(name: &str) -> Owner {
    Owner::new("anonymous", name)
}

fn acquire(n: usize, name: &str) -> Take {
    let ttl = Some(Span::from_secs(60));
    let acquire = Acquire::new(lock(n), owner(name), DIALECT, Secret([7; 16]));
    Take(Acquire { ttl, ..acquire })
}

fn proof(n: usize, held: Option<(LeaseId, Token)>) -> Proof {
    let (id, token) = held.expect("it is held");
    Proof::Id { id, owner: owner("a"), token: Some(token), lock: Some(lock(n)) }
}
