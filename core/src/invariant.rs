//! The invariants of a machine between commands. Tests check them after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::account::Account;
use crate::arena::Slot;
use crate::footprint::Footprint;
use crate::lease::{Lease, Mode, Phase};
use crate::lock::{Lock, Usage};
use crate::machine::Machine;
use crate::name::Dialect;
use crate::namespace;
use crate::owner::{self, Known};
use crate::share;
use crate::state::State;

/// Returns a description of the first invariant that does not hold.
pub fn check(machine: &Machine) -> Result<(), String> {
    let state = &machine.state;
    for (slot, lock) in state.locks.iter() {
        check_holders(machine, slot)
            .map_err(|broken| format!("{:?}: {broken}", state.key(slot)))?;
        check_lock(machine, slot, lock)
            .map_err(|broken| format!("{:?}: {broken}", state.key(slot)))?;
    }
    for (slot, lease) in state.leases.iter() {
        check_lease(state, slot, lease)
            .map_err(|broken| format!("{:?}: {broken}", lease.number))?;
    }
    check_sessions(state)?;
    check_owners(state)?;
    check_namespaces(state)?;
    check_footprint(state)?;
    check_indexes(state)
}

/// Checks rules 1 and 9: an exclusive holder is the only holder, and counted holders share one limit and do not exceed
/// it.
fn check_holders(machine: &Machine, slot: Slot<Lock>) -> Result<(), String> {
    let state = &machine.state;
    let holders: Vec<_> = state.holders(slot).map(|holder| &state.leases[holder]).collect();
    let n_holders = holders.len();
    holds(n_holders == state.locks[slot].n_holders() as usize, "holders are miscounted")?;
    // Shares do not count against the limit.
    let n_claims = holders.iter().filter(|holder| !state.is_share(holder)).count();
    holds(n_claims <= machine.limits.holders_max as usize, "too many holders")?;
    for holder in &holders {
        holds(holder.is_active() && holder.lock == slot, "a holder is not an active lease of it")?;
        match holder.mode.get() {
            Mode::Exclusive => holds(n_holders == 1, "an exclusive holder is not alone")?,
            Mode::Shared => {
                holds(holders[0].mode.get() == Mode::Shared, "a shared holder beside others")?
            }
            Mode::Counted(limit) => {
                holds(holders[0].mode == holder.mode, "counted holders disagree")?;
                holds(n_claims <= limit as usize, "more counted holders than their limit")?;
            }
        }
    }
    let tokens: BTreeSet<_> = holders.iter().map(|holder| holder.token).collect();
    holds(tokens.len() == n_holders, "two holders have one token")?;
    let last_token = state.locks[slot].last_token;
    holds(tokens.last().is_none_or(|token| *token <= last_token), "a token above the last one")
}

fn check_lock(machine: &Machine, slot: Slot<Lock>, lock: &Lock) -> Result<(), String> {
    let Usage::Busy(busy) = &lock.usage else { return Ok(()) };
    let state = &machine.state;
    holds(!busy.is_over(), "an unused lock is not among the idle ones")?;
    holds(busy.pending == state.pending.contains(&slot), "pending but not on the list")?;
    holds(busy.in_grace == state.grace_deadlines.get(slot).is_some(), "grace without a deadline")?;
    let grace_until = lock.lapse.as_ref().map(|lapse| lapse.grace_until);
    holds(!busy.in_grace || state.grace_deadlines.get(slot) == grace_until, "grace is misdated")?;
    holds(lock.lapse.is_none() || busy.n_holders == 0, "a lapse beside a holder")?;
    holds(busy.queue.as_ref().is_none_or(|queue| queue.len() > 0), "an empty queue is kept")?;
    let leases = state.leases.iter().filter(|(_, lease)| lease.lock == slot);
    let (mut n_queued, mut n_ended) = (0, 0);
    for (_, lease) in leases {
        n_queued += usize::from(lease.phase.is_queued());
        n_ended += u32::from(matches!(lease.phase, Phase::Ended(_)));
        if let (Mode::Counted(limit), Phase::Active | Phase::Waiting | Phase::Parked) =
            (lease.mode.get(), lease.phase)
        {
            holds(state.limit(slot) == Some(limit), "a counted lease disagrees with its lock")?;
        }
    }
    holds(n_queued == busy.queue.as_ref().map_or(0, |queue| queue.len()), "queue is miscounted")?;
    holds(n_ended == busy.n_ended, "ended leases are miscounted")?;
    check_queue(machine, slot, lock)
}

/// Checks rules 4, 5 and 8: no lock that could be granted has a waiter at the head of its queue, unless a check of the
/// queue is scheduled.
fn check_queue(machine: &Machine, slot: Slot<Lock>, lock: &Lock) -> Result<(), String> {
    let Some(queue) = lock.queue() else { return Ok(()) };
    let state = &machine.state;
    holds(queue.is_consistent(), "the queue contradicts itself")?;
    let numbers: Vec<_> = queue.iter().map(|waiter| state.leases[waiter].number).collect();
    holds(numbers.is_sorted(), "the queue is out of order")?;
    for waiter in queue.iter() {
        holds(state.leases[waiter].phase.is_queued(), "the queue has one that does not wait")?;
    }
    let looked_at = queue.first().map_or(vec![], |waiter| state.together(waiter));
    let is_due = state.is_behind(state.now)
        || looked_at.iter().any(|waiter| is_to_be_looked_at(state, state.leases[*waiter].lock));
    let is_in_grace = lock.grace(state.now).is_some();
    let could_be_granted = queue.first().is_some_and(|waiter| {
        let lease = &state.leases[waiter];
        let is_held_up = |group| state.first_held_up(group, state.now, &machine.limits).is_some();
        state.admits(slot, (lease.mode.get(), lease.dialect), &machine.limits)
            && !lease.group().is_some_and(is_held_up)
    });
    holds(
        is_due || is_in_grace || !could_be_granted,
        "the first waiter was not granted a free lock",
    )
}

/// Returns whether a check of a lock's queue is scheduled or due.
fn is_to_be_looked_at(state: &State, slot: Slot<Lock>) -> bool {
    state.locks[slot].busy().is_some_and(|busy| busy.pending)
        || state.grace_deadlines.get(slot).is_some_and(|at| at <= state.now)
}

fn check_lease(state: &State, slot: Slot<Lease>, lease: &Lease) -> Result<(), String> {
    holds(state.find_lease(lease.number) == Some(slot), "not found by its number")?;
    holds(lease.number < state.next_lease, "its number will be given again")?;
    let remembered = (lease.deadline, lease.number);
    let deadline = state.lease_deadlines.get(slot);
    match lease.phase {
        Phase::Active => {
            holds(state.holders(lease.lock).any(|h| h == slot), "active but does not hold")?;
            // The recorded deadline can be too early, if the lease was renewed since, but never too late.
            let is_watched = deadline.is_some_and(|at| at <= lease.deadline);
            holds(is_watched || lease.deadline.finite().is_none(), "its deadline is not watched")?;
        }
        Phase::Waiting | Phase::Parked => {
            let queue = state.locks[lease.lock].queue();
            let is_there = queue.is_some_and(|queue| queue.iter().any(|w| w == slot));
            holds(is_there, "waits but is not in the queue")?;
            holds(deadline == lease.deadline.finite(), "its wait is not watched")?;
            check_group(state, lease)?;
        }
        Phase::Ended(_) => {
            let memory = if lease.keep { &state.kept } else { &state.answered };
            holds(memory.contains(&remembered), "ended, and will never be forgotten")?;
            holds(deadline.is_none() && lease.membership.is_none(), "ended, and still bound")?;
            holds(state.vigil.get(slot).is_none(), "ended, and still looked at")?;
        }
    }
    holds(lease.token <= state.locks[lease.lock].last_token, "its token is from the future")
}

/// Checks rule 15: the waiting leases of a group agree.
fn check_group(state: &State, lease: &Lease) -> Result<(), String> {
    let Some(group) = lease.group() else { return Ok(()) };
    let members: Vec<_> = state.members(group).map(|member| &state.leases[member]).collect();
    holds(members.len() == group.size as usize, "one that waits together with others is alone")?;
    let locks: BTreeSet<_> = members.iter().map(|member| member.lock).collect();
    holds(locks.len() == members.len(), "a lock is waited for twice")?;
    for member in members {
        holds(member.group() == Some(group), "those that wait together do not agree with whom")?;
        let is_same = (member.phase, member.deadline, member.owner, member.ttl, member.session())
            == (lease.phase, lease.deadline, lease.owner, lease.ttl, lease.session());
        holds(is_same, "those that wait together differ")?;
    }
    Ok(())
}

fn check_sessions(state: &State) -> Result<(), String> {
    let mut members: BTreeMap<_, (u32, u32)> = BTreeMap::new();
    for (_, lease) in state.leases.iter() {
        if let Some(session) = lease.session() {
            let (n_members, n_shares) = members.entry(session).or_default();
            *n_members += 1;
            *n_shares += u32::from(state.is_share(lease));
        }
    }
    for (slot, session) in state.sessions.iter() {
        let listed = std::iter::successors(session.leases, |lease| {
            state.leases[*lease].membership.as_ref().and_then(|m| m.links.after)
        });
        let n_listed = listed.count() as u32;
        let (n_members, n_shares) = members.get(&slot).copied().unwrap_or_default();
        let name = session.number;
        same(&name, "leases listed", n_listed, n_members)?;
        same(&name, "leases counted", session.n_leases, n_members - n_shares)?;
        same(&name, "found by digest", state.find_session(&session.digest), Some(slot))?;
        same(&name, "being ended", state.ending.contains(&slot), session.ended.is_some())?;
        let watched = session.ended.is_none().then_some(session.deadline);
        same(&name, "watched deadline", state.session_deadlines.get(slot), watched)?;
    }
    Ok(())
}

fn check_owners(state: &State) -> Result<(), String> {
    let mut n_refs: BTreeMap<Slot<Known>, u32> = BTreeMap::new();
    let leases = state.leases.iter().map(|(_, lease)| lease.owner);
    let sessions = state.sessions.iter().map(|(_, session)| session.owner);
    let lapses = state.locks.iter().filter_map(|(_, lock)| lock.lapse.as_ref());
    for owner in leases.chain(sessions).chain(lapses.map(|lapse| lapse.owner)) {
        *n_refs.entry(owner).or_default() += 1;
    }
    for (slot, known) in state.owners.iter() {
        let expected = n_refs.get(&slot).copied().unwrap_or_default();
        same(&known.owner, "references", state.owners.n_refs(slot), expected)?;
    }
    check_accounts(state)
}

/// Checks the references, leases, namespaces and sessions that each account counts.
fn check_accounts(state: &State) -> Result<(), String> {
    let mut expected: BTreeMap<Slot<Account>, (u32, u32, u32)> = BTreeMap::new();
    let mut sessions: BTreeMap<(Slot<Account>, Dialect), u32> = BTreeMap::new();
    for (_, known) in state.owners.iter() {
        expected.entry(known.account).or_default().0 += 1;
    }
    for (_, lease) in state.leases.iter() {
        let own = lease.extra.as_ref().and_then(|extra| extra.account);
        let counts = expected.entry(state.account_of(lease)).or_default();
        counts.0 += u32::from(own.is_some());
        counts.1 += u32::from(!matches!(lease.phase, Phase::Ended(_)));
    }
    for account in state.namespaces.iter().filter_map(|namespace| namespace.account) {
        let counts = expected.entry(account).or_default();
        (counts.0, counts.2) = (counts.0 + 1, counts.2 + 1);
    }
    for (_, session) in state.sessions.iter() {
        expected.entry(session.account).or_default().0 += 1;
        let is_live = u32::from(session.ended.is_none());
        *sessions.entry((session.account, session.dialect)).or_default() += is_live;
    }
    check_shares(state)?;
    let accounts = &state.owners.accounts;
    for (slot, account) in accounts.iter() {
        let counts = (accounts.n_refs(slot), account.n_leases, account.n_namespaces);
        let expected = expected.get(&slot).copied().unwrap_or_default();
        let name = (&account.principal, account.peer);
        same(&name, "references, leases, namespaces", counts, expected)?;
    }
    for ((slot, dialect), n) in sessions {
        let account = accounts.get(slot);
        same(&account.principal, "sessions", account.n_sessions(dialect), n)?;
    }
    Ok(())
}

/// Checks the bytes and the ended leases of each account, and whether they exceed its share.
fn check_shares(state: &State) -> Result<(), String> {
    let mut expected: BTreeMap<Slot<Account>, Footprint> = BTreeMap::new();
    let mut ended: BTreeMap<(Slot<Account>, bool), BTreeSet<Slot<Lease>>> = BTreeMap::new();
    let mut owners: BTreeMap<Slot<Known>, u32> = BTreeMap::new();
    for (slot, lease) in state.leases.iter() {
        let account = state.account_of(lease);
        let footprint = expected.entry(account).or_default();
        *footprint += Footprint::of(lease);
        footprint.names += state.locks[lease.lock].name.len();
        *owners.entry(lease.owner).or_default() += 1;
        if matches!(lease.phase, Phase::Ended(_)) {
            ended.entry((account, lease.keep)).or_default().insert(slot);
        }
    }
    for (slot, known) in state.owners.iter() {
        let n_leases = owners.get(&slot).copied().unwrap_or_default();
        same(&known.owner, "leases", known.n_leases, n_leases)?;
        if n_leases > 0 {
            expected.entry(known.account).or_default().names += owner::bytes(&known.owner);
        }
    }
    for (slot, account) in state.owners.accounts.iter() {
        let name = (&account.principal, account.peer);
        let footprint = expected.get(&slot).copied().unwrap_or_default();
        same(&name, "bytes", account.footprint, footprint)?;
        for (keep, list) in [(true, &account.kept), (false, &account.answered)] {
            let listed: BTreeSet<_> = list.iter(&state.leases).collect();
            let remembered = ended.remove(&(slot, keep)).unwrap_or_default();
            holds(listed == remembered, "an ended lease is not in the list of its account")?;
            same(&name, "ended leases", list.len(), listed.len())?;
        }
        let is_crowded = account.too_much(&state.share).is_some();
        same(&name, "beyond its share", state.crowded.contains(&slot), is_crowded)?;
    }
    let is_known = |slot: &Slot<Account>| state.owners.accounts.iter().any(|(of, _)| of == *slot);
    holds(state.crowded.iter().all(is_known), "an account that is gone is beyond its share")
}

fn check_namespaces(state: &State) -> Result<(), String> {
    let mut expected: BTreeMap<_, (usize, usize, u32)> = BTreeMap::new();
    let live = state.leases.iter().filter(|(_, lease)| !matches!(lease.phase, Phase::Ended(_)));
    for (_, lease) in live {
        expected.entry(state.locks[lease.lock].namespace).or_default().2 += 1;
    }
    for (_, lock) in state.locks.iter() {
        let counts = expected.entry(lock.namespace).or_default();
        counts.0 += 1;
        counts.1 += usize::from(lock.busy().is_none());
    }
    let empty: BTreeSet<_> = state.namespaces.empty().collect();
    for slot in state.namespaces.slots() {
        let namespace = state.namespaces.get(slot);
        let expected = expected.get(&slot).copied().unwrap_or_default();
        let counts = (namespace.n_locks, namespace.n_idle, namespace.n_leases);
        same(&namespace.name, "locks, idle ones, leases", counts, expected)?;
        same(&namespace.name, "empty", empty.contains(&slot), namespace.n_locks == 0)?;
    }
    Ok(())
}

fn check_footprint(state: &State) -> Result<(), String> {
    let mut expected = Footprint::default();
    state.leases.iter().for_each(|(_, lease)| expected += Footprint::of(lease));
    expected.names = state.locks.iter().map(|(_, lock)| lock.name.len()).sum();
    let namespaces = state.namespaces.iter().map(|namespace| namespace::bytes(&namespace.name));
    let owners = state.owners.iter().map(|(_, known)| owner::bytes(&known.owner));
    expected.names += namespaces.chain(owners).sum::<usize>();
    same(&"bytes", "counted", state.footprint(), expected)
}

/// Checks the counts of held locks and leases. A lock is held if at least one of its holders is not a share.
fn check_held(state: &State) -> Result<(), String> {
    let (mut n_held, mut n_leases) = (0, 0);
    for (slot, lock) in state.locks.iter() {
        let leases = state.holders(slot).map(|holder| &state.leases[holder]);
        let n_claims = leases.filter(|lease| !state.is_share(lease)).count();
        n_held += usize::from(n_claims > 0);
        n_leases += n_claims;
        let n_expected = if share::is_share_name(&lock.name) { n_claims as u32 } else { 0 };
        same(&lock.name, "claims", state.held.n_claims(slot), n_expected)?;
    }
    same(&"held locks", "counted", state.held.n_locks, n_held)?;
    same(&"held leases", "counted", state.held.n_leases, n_leases)
}

fn check_indexes(state: &State) -> Result<(), String> {
    let leases = || state.leases.iter().map(|(_, lease)| lease);
    let n_requests: usize = leases().map(|lease| lease.requests().len()).sum();
    let n_idle = state.locks.iter().filter(|(_, lock)| lock.busy().is_none()).count();
    same(&"locks", "indexed", state.lock_index.len(), state.locks.len())?;
    same(&"leases", "indexed", state.lease_index.len(), state.leases.len())?;
    same(&"requests", "indexed", state.requests.len(), n_requests)?;
    same(&"idle locks", "listed", state.idle.len(), n_idle)?;
    same(&"active leases", "counted", state.n_active, leases().filter(|l| l.is_active()).count())?;
    same(
        &"waiting leases",
        "counted",
        state.n_queued,
        leases().filter(|l| l.phase.is_queued()).count(),
    )?;
    check_held(state)?;
    let n_ended = leases().filter(|lease| matches!(lease.phase, Phase::Ended(_))).count();
    same(&"ended leases", "remembered", state.kept.len() + state.answered.len(), n_ended)?;
    let n_watched = leases()
        .filter(|lease| {
            !matches!(lease.phase, Phase::Ended(_)) && lease.deadline.finite().is_some()
        })
        .count();
    same(&"lease deadlines", "watched", state.lease_deadlines.len(), n_watched)?;
    let mut n_catalogued = 0;
    for namespace in state.namespaces.iter() {
        let slots: Vec<_> = namespace.catalog.from(&state.locks, "").collect();
        let mut pairs =
            slots.windows(2).map(|pair| [pair[0], pair[1]].map(|s| &state.locks[s].name));
        holds(pairs.all(|[one, next]| one < next), "a catalog is out of order")?;
        n_catalogued += slots.len();
    }
    let to_be_listed = state.locks.iter().filter(|(slot, _)| state.is_catalogued(*slot));
    same(&"catalogs", "locks", n_catalogued, to_be_listed.count())?;
    let listed = leases().filter(|lease| lease.keep).map(|lease| lease.number).collect();
    holds(state.listed == listed, "what can be listed is not what is kept")?;
    let waiting = leases().filter(|lease| lease.phase.is_queued());
    let waiting: BTreeSet<_> = waiting.map(|lease| (lease.owner, lease.number)).collect();
    holds(waiting == state.waiting, "who waits is not known by owner")?;
    let n_convoys = state.locks.iter().filter_map(|(_, lock)| lock.busy());
    let n_convoys = n_convoys.filter(|busy| busy.is_convoy()).count();
    same(&"convoys", "counted", state.n_convoys, n_convoys)?;
    let heaps_hold = state.lease_deadlines.is_consistent()
        && state.vigil.is_consistent()
        && state.session_deadlines.is_consistent()
        && state.grace_deadlines.is_consistent();
    holds(heaps_hold, "a deadline is out of order")
}

fn holds(condition: bool, otherwise: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise.into()) }
}

fn same<T: PartialEq + Debug>(
    whose: &dyn Debug,
    what: &str,
    is: T,
    should_be: T,
) -> Result<(), String> {
    if is == should_be {
        return Ok(());
    }
    Err(format!("{whose:?}: {what}: {is:?} instead of {should_be:?}"))
}
