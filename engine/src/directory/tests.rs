//! What the directory finds is what a look at every lock of the machine finds, whatever happened before.

use std::sync::Arc;

use leasehold_auth::{Part, View};
use leasehold_core::mutant::{Mutant, switch};
use leasehold_core::{
    Acquire, Dialect, Glance, KeepSession, LeaseNumber, Limits, LockKey, Machine, Mode,
    OpenSession, Owner, Proof, Release, Renew, Revoke, Secret, SessionDigest, Span, Sweep, Target,
    Timestamp, Wait,
};
use leasehold_core::{CloseSession, Extend};

use super::block::BLOCK_MAX;
use super::model::Model;
use super::query::{FoundLocks, LockQuery, Order, Place, SearchLocks, Sight, Stand};
use super::row::OWNERS_MAX;
use crate::owner::shown;
use crate::read::{Filter, Standing};

const ORDERS: [Order; 5] = [Order::Name, Order::Ends, Order::Held, Order::Waiters, Order::Waited];
const STANDS: [Option<Stand>; 5] =
    [None, Some(Stand::Held), Some(Stand::Waiting), Some(Stand::Grace), Some(Stand::Free)];

/// A machine with a directory, and numbers that look random.
struct World {
    machine: Machine,
    model: Model,
    state: u64,
    n_acquires: u64,
}

impl World {
    fn new(seed: u64, idle_max: usize) -> Self {
        let limits = Limits { idle_max, ..Limits::default() };
        let (machine, model) = (Machine::new(limits, 1), Model::default());
        Self { machine, model, state: seed * 7 + 1, n_acquires: 0 }
    }

    fn random(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % n
    }

    fn refresh(&mut self) {
        loop {
            let changes = self.model.next_collection().look_at(&mut self.machine);
            let n_left = changes.n_left;
            self.model.apply(changes);
            if n_left == 0 {
                return;
            }
        }
    }

    fn key(&mut self) -> LockKey {
        let namespace = ["apart", "shop", "tree"][self.random(3) as usize];
        let n = self.random(400);
        // Some with the names of shares, some with capitals.
        let name = match n % 4 {
            0 => format!("Deploy/{n:03}"),
            1 => format!("job-{n}"),
            2 => format!("/a/{n}/"),
            _ => format!("ÄÖ {n}"),
        };
        LockKey::new(namespace, name)
    }

    fn owner(&mut self) -> Owner {
        let (n, m) = (self.random(9), self.random(3));
        Owner::new(["ann", "Bob", "carol"][m as usize], &*format!("Worker-{n}-with-a-long-name"))
    }

    fn dialect(&mut self) -> Dialect {
        Dialect([0, 0, 4, 5, 6, 8][self.random(6) as usize])
    }

    fn acquire(&mut self) -> Acquire {
        let (lock, owner, dialect) = (self.key(), self.owner(), self.dialect());
        let acquire = Acquire::new(lock, owner, dialect, Secret([1; 16]));
        let ttl = (self.random(5) > 0).then(|| Span::from_secs(1 + self.random(20)));
        let wait = match self.random(3) {
            0 => Wait::No,
            1 => Wait::Connected(Span::from_secs(1 + self.random(30))),
            _ => Wait::Unattended(Span::from_secs(1 + self.random(30))),
        };
        let grace = Span::from_secs([0, 7][self.random(2) as usize]);
        let mode = [Mode::Exclusive, Mode::Shared, Mode::Counted(3)][self.random(3) as usize];
        let session = (self.random(4) == 0).then(|| SessionDigest([self.random(4) as u8; 32]));
        Acquire { ttl, wait, grace, mode, session, ..acquire }
    }

    /// Does something, at once or a little later.
    fn step(&mut self) {
        let later = Span::from_millis([0, 0, 0, 900][self.random(4) as usize]);
        let now = self.machine.now() + later;
        let number = LeaseNumber(self.n_acquires.saturating_sub(self.random(60)));
        let (proof, dialect) = (Proof::Number { number, principal: None }, self.dialect());
        let session = SessionDigest([self.random(4) as u8; 32]);
        let machine = &mut self.machine;
        match self.state >> 40 & 15 {
            0 => {
                let target = Target::Lock(self.key());
                let _ = self.machine.apply(now, Revoke { target, reason: "a test".into() });
            }
            1 | 2 => {
                let _ = machine.apply(now, Release { proof, dialect, request_id: None });
            }
            3 | 4 => {
                let extend = Extend::By(Span::from_secs(9));
                let _ = machine.apply(now, Renew { proof, dialect, extend, request_id: None });
            }
            5 => {
                let _ = machine.apply(now, Sweep { n_changes_max: 50 });
            }
            6 => {
                let (owner, ttl) = (self.owner(), Span::from_secs(1 + self.random(9)));
                let (peer, credential) = (None, None);
                let open = OpenSession { digest: session, owner, dialect, ttl, peer, credential };
                let _ = self.machine.apply(now, open);
            }
            7 => {
                let _ = machine.apply(now, KeepSession { session, principal: None, dialect });
            }
            8 => {
                let _ = machine.apply(now, CloseSession { session, principal: None, dialect });
            }
            _ => {
                let acquire = self.acquire();
                self.n_acquires += 1;
                let _ = self.machine.apply(now, acquire);
            }
        }
    }

    fn query(&mut self) -> LockQuery {
        let search = ["", "", "job-1", "deploy", "äö", "worker-3", "bob", "a-long-name", "9/"];
        let namespace = [None, None, Some("shop"), Some("tree"), Some("nowhere")];
        let dialect = [None, None, Some(Dialect(4)), Some(Dialect(5))];
        LockQuery {
            search: search[self.random(9) as usize].into(),
            namespace: namespace[self.random(5) as usize].map(Into::into),
            stand: STANDS[self.random(5) as usize],
            dialect: dialect[self.random(4) as usize],
            order: ORDERS[self.random(5) as usize],
            after: None,
            n_max: 1 + self.random(20) as usize,
        }
    }

    fn sight(&mut self) -> Prefixes {
        let all = [
            Prefixes(vec![("", "")]),
            Prefixes(vec![("shop", "")]),
            Prefixes(vec![("apart", "job-"), ("tree", "/a/1")]),
            Prefixes(vec![]),
        ];
        all[self.random(4) as usize].clone()
    }
}

/// A reader's sight: prefixes of names in namespaces. An empty namespace stands for all.
#[derive(Clone, Debug)]
struct Prefixes(Vec<(&'static str, &'static str)>);

impl Sight for Prefixes {
    fn part_between(&self, namespace: &str, first: &str, last: &str) -> Part {
        let of = self.0.iter().filter(|(own, _)| own.is_empty() || *own == namespace);
        let (mut part, mut prefixes) = (Part::None, of.map(|(_, prefix)| *prefix));
        if prefixes.clone().any(|own| first.starts_with(own) && last.starts_with(own)) {
            return Part::All;
        }
        if prefixes.any(|own| first.starts_with(own) || first <= own && own <= last) {
            part = Part::Some;
        }
        part
    }

    fn shows(&self, lock: &LockKey) -> bool {
        let covers = |(namespace, prefix): &(&str, &str)| {
            (namespace.is_empty() || **namespace == *lock.namespace)
                && lock.name.starts_with(prefix)
        };
        self.0.iter().any(covers)
    }
}

/// Looks at every lock of the machine.
fn naive(machine: &Machine, search: &SearchLocks, sight: &Prefixes) -> FoundLocks {
    let (mut found, mut all) = (FoundLocks::default(), Vec::new());
    let query = &search.query;
    for lock in (0..machine.n_slots()).filter_map(|at| machine.glance(at)) {
        let key = LockKey::new(lock.namespace().clone(), lock.name());
        let is_hidden = search.of_paths.as_deref() == Some(&**lock.namespace());
        if is_hidden && lock.is_only_shared() || !sight.shows(&key) {
            continue;
        }
        let (is_held, n_waiting) = (lock.n_holders() > 0, lock.n_waiting());
        let in_grace = lock.grace_until().is_some();
        found.counts.n_locks += 1;
        found.counts.n_holders += lock.n_holders();
        found.counts.n_waiters += n_waiting;
        found.counts.n_held += usize::from(is_held);
        found.counts.n_waited_for += usize::from(n_waiting > 0);
        found.counts.n_in_grace += usize::from(in_grace);
        found.counts.n_free += usize::from(!is_held && !in_grace);
        found.namespaces.insert(lock.namespace().clone());
        let stands = query.stand.is_none_or(|stand| match stand {
            Stand::Held => is_held,
            Stand::Waiting => n_waiting > 0,
            Stand::Grace => in_grace,
            Stand::Free => !is_held && !in_grace,
        });
        let is_there = query.namespace.as_deref().is_none_or(|own| *own == *key.namespace);
        let is_so = query.dialect.is_none_or(|dialect| lock.dialect() == Some(dialect));
        if stands && is_there && is_so && has_text(lock, &query.search) {
            all.push(Place { rank: rank(machine, lock, query.order), key });
        }
    }
    all.sort();
    found.n_matches = all.len();
    found.n_before = match &query.after {
        Some(after) => all.partition_point(|place| place <= after),
        None => 0,
    };
    let first = found.n_before.saturating_sub(query.n_max + 1);
    found.before = all[first..found.n_before].iter().cloned().collect();
    found.places = all[found.n_before..].iter().take(query.n_max).cloned().collect();
    found
}

fn has_text(lock: Glance<'_>, search: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(search);
    let mut owners = lock.owners(OWNERS_MAX);
    has(lock.name())
        || owners.any(|seen| has(&shown(seen.dialect, seen.owner)) || has(&seen.owner.principal))
}

fn rank(machine: &Machine, lock: Glance<'_>, order: Order) -> u64 {
    let at = |time: Option<Timestamp>| time.map_or(u64::MAX, Timestamp::as_nanos);
    match order {
        Order::Name => 0,
        Order::Ends => {
            let session = lock.session().and_then(|at| machine.session_deadline(at));
            let of_lease = lock.deadline().or(lock.grace_until());
            at(of_lease.into_iter().chain(session).min())
        }
        Order::Held => at(lock.held_since()),
        Order::Waiters => u64::MAX - lock.n_waiting() as u64,
        Order::Waited => at(lock.waited_since()),
    }
}

fn told(found: &FoundLocks) -> String {
    let FoundLocks { counts, n_matches, n_before, before, places, namespaces, .. } = found;
    format!("{counts:?} {n_matches} {n_before} {before:?} {places:?} {namespaces:?}")
}

/// Compares every page of a search, forth.
fn compare_search(world: &mut World) -> Result<(), String> {
    let (mut query, sight) = (world.query(), world.sight());
    let of_paths: Option<Arc<str>> = (world.random(2) == 0).then(|| "tree".into());
    for _ in 0..4 {
        let search =
            SearchLocks { query: query.clone(), view: View::default(), of_paths: of_paths.clone() };
        let found = search.find_for(&world.model, &sight);
        let expected = naive(&world.machine, &search, &sight);
        if told(&found) != told(&expected) {
            return Err(format!("{search:?} {sight:?}: {}, not {}", told(&found), told(&expected)));
        }
        let Some(last) = found.places.last() else { break };
        query.after = Some(last.clone());
    }
    Ok(())
}

/// Checks that a list misses no lock that belongs on it, and that it has few others.
fn compare_list(world: &mut World) -> Result<(), String> {
    let standing = [None, Some(Standing::Held), Some(Standing::Waiting), Some(Standing::Free)];
    let owner = world.owner().instance;
    let filter = Filter {
        namespace: "shop".into(),
        prefix: ["", "job-", "Deploy/1"][world.random(3) as usize].into(),
        owner: (world.random(2) == 0).then(|| (*owner).into()),
        standing: standing[world.random(4) as usize],
        n_max: 100,
        after: [None, Some("Deploy/200"), Some("job-5")][world.random(3) as usize].map(Into::into),
        view: View::default(),
        leave_out: None,
    };
    let sight = world.sight();
    let belongs = |lock: &Glance<'_>| {
        let is_held = lock.n_holders() > 0;
        let stands = match filter.standing {
            None => true,
            Some(Standing::Held) => is_held,
            Some(Standing::Waiting) => lock.n_waiting() > 0,
            Some(Standing::Free) => !is_held,
        };
        let key = LockKey::new(lock.namespace().clone(), lock.name());
        let has = |owner: &str| lock.owners(usize::MAX).any(|s| *s.owner.instance == *owner);
        **lock.namespace() == *filter.namespace
            && lock.name().starts_with(&*filter.prefix)
            && filter.after.as_deref().is_none_or(|after| lock.name() > after)
            && stands
            && sight.shows(&key)
            && filter.owner.as_deref().is_none_or(has)
    };
    let machine = &world.machine;
    let all = (0..machine.n_slots()).filter_map(|at| machine.glance(at)).filter(belongs);
    let mut expected: Vec<Box<str>> = all.map(|lock| lock.name().into()).collect();
    expected.sort_unstable();
    let found = world.model.names(&filter, &sight, usize::MAX).names;
    let is_whole = expected.iter().all(|name| found.contains(name));
    let is_short = found.len() <= expected.len() + 5;
    if is_whole && is_short && found.is_sorted() {
        return Ok(());
    }
    Err(format!("{filter:?} {sight:?}: {found:?}, not {expected:?}"))
}

/// Returns the first difference between the directory and the machine.
fn difference(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed, 40);
    for n in 0..1_500 {
        world.step();
        if n % 25 == 0 {
            world.refresh();
            compare_search(&mut world)?;
            compare_list(&mut world)?;
        }
    }
    Ok(())
}

#[test]
fn searches_and_lists_are_those_of_a_look_at_every_lock() {
    for seed in 0..12 {
        assert_eq!(difference(seed), Ok(()), "seed {seed}");
    }
    for mutant in [Mutant::FormerStateCounted, Mutant::RenewalNotCollected] {
        switch(Some(mutant));
        let found = (0..12).any(|seed| difference(seed).is_err());
        switch(None);
        assert!(found, "{mutant:?} is not found");
    }
}

/// A world with so many held locks, and one waiter for each of the first ten.
fn many(n: usize) -> World {
    let mut world = World::new(1, 100);
    for n in 0..n {
        let key = LockKey::new("shop", format!("orders/{n:010}"));
        let owner = Owner::new("ann", &*format!("worker-{}", n % 100));
        let acquire = Acquire::new(key, owner, Dialect(0), Secret([1; 16]));
        let acquire = Acquire { ttl: Some(Span::from_secs(3600)), ..acquire };
        let wait = Wait::Unattended(Span::from_secs(60));
        let owner = Owner::new("bob", "waiter");
        let waits = Acquire { wait, owner, ..acquire.clone() };
        assert!(world.machine.apply(Timestamp::ZERO, acquire).outcome.is_ok());
        if n < 10 {
            assert!(world.machine.apply(Timestamp::ZERO, waits).outcome.is_ok());
        }
    }
    world.refresh();
    world
}

#[test]
fn a_page_takes_a_look_at_few_locks_however_many_there_are() {
    const PAGE: usize = 50;
    let n = 30_000;
    let mut world = many(n);
    let search = |query: LockQuery| {
        let query = LockQuery { n_max: PAGE, ..query };
        let search = SearchLocks { query, view: View::default(), of_paths: None };
        search.find(&world.model)
    };
    let after = |n: usize| {
        let key = LockKey::new("shop", format!("orders/{n:010}"));
        Some(Place { rank: 0, key })
    };
    let found = search(LockQuery::default());
    assert_eq!((found.counts.n_locks, found.n_matches, found.places.len()), (n, n, PAGE));
    assert!(found.n_visited <= 2 * BLOCK_MAX, "{}", found.n_visited);
    let found = search(LockQuery { after: after(n / 2), ..LockQuery::default() });
    assert_eq!((found.n_before, found.before.len(), found.places.len()), (n / 2 + 1, 51, PAGE));
    assert!(found.n_visited <= 5 * BLOCK_MAX, "{}", found.n_visited);
    let found = search(LockQuery { stand: Some(Stand::Waiting), ..LockQuery::default() });
    assert_eq!((found.n_matches, found.places.len()), (10, 10));
    assert!(found.n_visited <= BLOCK_MAX, "{}", found.n_visited);
    let found = search(LockQuery { stand: Some(Stand::Free), ..LockQuery::default() });
    assert_eq!((found.n_matches, found.n_visited), (0, 0));
    let found = search(LockQuery { search: "s/0000012345".into(), ..LockQuery::default() });
    assert_eq!((found.n_matches, found.n_visited), (1, 1));
    let found = search(LockQuery { search: "waiter".into(), ..LockQuery::default() });
    assert_eq!((found.n_matches, found.n_visited), (10, n));
    // A list by owner looks at rows only, up to the page's end.
    let filter = Filter {
        namespace: "shop".into(),
        prefix: "orders/00000123".into(),
        owner: Some("worker-7".into()),
        standing: None,
        n_max: 10,
        after: None,
        view: View::default(),
        leave_out: None,
    };
    let found = world.model.names(&filter, &filter.view, 100);
    assert_eq!((found.names.len(), found.has_more), (1, false));
    assert!(found.n_visited <= 2 * BLOCK_MAX, "{}", found.n_visited);
    // What was not changed is not collected again.
    let changes = world.model.next_collection().look_at(&mut world.machine);
    assert_eq!((changes.locks.len(), changes.n_left, changes.is_fresh), (0, 0, false));
    world.model.apply(changes);
    let key = LockKey::new("shop", "orders/0000000500");
    let revoke = Revoke { target: Target::Lock(key), reason: "a test".into() };
    assert!(world.machine.apply(Timestamp::ZERO, revoke).outcome.is_ok());
    let changes = world.model.next_collection().look_at(&mut world.machine);
    assert_eq!((changes.locks.len(), changes.n_left), (1, 0));
}

#[test]
fn a_lock_takes_few_bytes_in_the_directory() {
    const N: usize = 30_000;
    let world = many(N);
    let per_lock = world.model.n_bytes() / N;
    // Of these, 17 are its name.
    assert!(per_lock <= 120, "{per_lock} bytes per lock");
}
