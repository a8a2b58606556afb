//! The work that is counted: everything on one thread, from the question to the answer.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_core::{
    Acquire, Command, Dialect, Extend, LeaseId, LockKey, Outcome, Owner, Proof, Release, Renew,
    Secret, Span, Token,
};
use leasehold_server::clock::FakeClock;
use leasehold_server::engine::{Call, EngineHandle, Options, Reply, Stepped};
use leasehold_server::metrics::Metrics;
use leasehold_server::store::Store;
use leasehold_server::store::memory::MemoryStore;
use leasehold_server::store::sqlite::{self, SqliteStore};
use leasehold_testkit::{TempDir, folder};

pub(crate) const STORES: [&str; 2] = ["memory", "sqlite"];

/// What is asked, and how many ask at once.
#[derive(Clone, Copy)]
pub(crate) enum Workload {
    /// One client takes a lock and gives it back.
    CycleOf1,
    /// So do 64.
    CycleOf64,
    /// 64 clients renew what they have.
    RenewalsOf64,
    /// 64 clients want what another has.
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
                // It is not folded: that is another thread's work.
                let fold_interval = Duration::from_secs(3600);
                let options = sqlite::Options { data: folder.path().join("data"), fold_interval };
                Box::new(SqliteStore::open(options).expect("a store"))
            }
        };
        let (clock, metrics) = (Arc::new(FakeClock::default()), Arc::new(Metrics::new()));
        let (engine, handle) =
            Stepped::start(Options::default(), store, clock, metrics).expect("a start");
        let mut bench = Self { workload, engine, handle, held: Vec::new(), _folder: folder };
        if matches!(workload, Workload::RenewalsOf64 | Workload::RefusalsOf64) {
            bench.held = bench.acquire();
        }
        bench
    }

    /// How many requests so many rounds are.
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
        let outcomes = self.ask(|n, _| acquire(n, "a"));
        let granted = |outcome| match outcome {
            Some(Outcome::Granted(grant)) => (grant.lease.id, grant.lease.token),
            other => panic!("{other:?}"),
        };
        outcomes.into_iter().map(granted).collect()
    }

    fn release(&mut self) {
        let release =
            |n, held| Release { proof: proof(n, held), dialect: DIALECT, request_id: None };
        let outcomes = self.ask(|n, held| Command::Release(release(n, held)));
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Some(Outcome::Released(_)))));
    }

    fn renew(&mut self) {
        let extend = Extend::AtLeast(Span::from_secs(60));
        let renew =
            |n, held| Renew { proof: proof(n, held), dialect: DIALECT, extend, request_id: None };
        let outcomes = self.ask(|n, held| Command::Renew(renew(n, held)));
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Some(Outcome::Renewed(_)))));
    }

    fn be_refused(&mut self) {
        let outcomes = self.ask(|n, _| acquire(n, "b"));
        assert!(outcomes.iter().all(Option::is_none));
    }

    /// Everybody asks, there is one round, and everybody is answered.
    fn ask(
        &mut self,
        command: impl Fn(usize, Option<(LeaseId, Token)>) -> Command,
    ) -> Vec<Option<Outcome>> {
        let calls: Vec<_> = (0..self.workload.n_clients())
            .map(|n| self.handle.apply(command(n, self.held.get(n).copied())))
            .collect();
        assert!(self.engine.round().expect("a round"));
        calls.into_iter().map(answer).collect()
    }
}

const DIALECT: Dialect = Dialect(0);

/// `None`: it was refused.
fn answer(call: Call) -> Option<Outcome> {
    let mut call = pin!(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(Reply::Applied(outcome))) => outcome.ok(),
        other => panic!("{other:?}"),
    }
}

fn lock(n: usize) -> LockKey {
    LockKey::new("default", format!("orders/{n:010}"))
}

fn owner(name: &str) -> Owner {
    Owner::new("anonymous", name)
}

fn acquire(n: usize, name: &str) -> Command {
    let ttl = Some(Span::from_secs(60));
    let acquire = Acquire::new(lock(n), owner(name), DIALECT, Secret([7; 16]));
    Command::Acquire(Box::new(Acquire { ttl, ..acquire }))
}

fn proof(n: usize, held: Option<(LeaseId, Token)>) -> Proof {
    let (id, token) = held.expect("it is held");
    Proof::Id { id, owner: owner("a"), token: Some(token), lock: Some(lock(n)) }
}
