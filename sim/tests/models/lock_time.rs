//! A model of lock time over restarts: in the same boot it advances by the time that has passed; in another boot it
//! resumes at the last recorded time.
//!
//! Time advances in steps. One lease is granted, and its owner relies on it for `TTL` steps after the grant. The server
//! can end and start at any step, in the same boot or on another machine with any uptime.

use stateright::{Checker, HasDiscoveries, Model, Property};

const TTL: u8 = 4;
const TIME_MAX: u8 = 10;
const STARTS_MAX: u8 = 4;
/// The maximum age of the last record.
const TICK: u8 = 1;

struct LockTime {
    advances_on_same_boot: bool,
    stands_still_on_another: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Record {
    boot: u8,
    boottime: u8,
    lock_time: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct State {
    now: u8,
    /// The number of the boot, and the boottime.
    boot: u8,
    boottime: u8,
    /// `None`: the server is down.
    lock_time: Option<u8>,
    last: Record,
    /// The time since the last record.
    unwritten: u8,
    /// True time and lock time of the grant.
    granted: Option<(u8, u8)>,
    /// The part of the true time since the grant whose length cannot be known.
    n_unknown: u8,
    is_down_since: u8,
    n_starts: u8,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Action {
    TimePasses,
    Write,
    Grant,
    Crash,
    Start,
    /// Start on another machine with this uptime.
    StartElsewhere(u8),
}

impl Model for LockTime {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let last = Record { boot: 0, boottime: 2, lock_time: 0 };
        vec![State {
            now: 0,
            boot: 0,
            boottime: 2,
            lock_time: Some(0),
            last,
            unwritten: 0,
            granted: None,
            n_unknown: 0,
            is_down_since: 0,
            n_starts: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_up = state.lock_time.is_some();
        if state.now < TIME_MAX && !(is_up && state.unwritten == TICK) {
            actions.push(Action::TimePasses);
        }
        if is_up {
            actions.push(Action::Write);
            actions.extend((state.n_starts < STARTS_MAX).then_some(Action::Crash));
            actions.extend(state.granted.is_none().then_some(Action::Grant));
        } else {
            actions.push(Action::Start);
            actions.extend([0, 2, 8].map(Action::StartElsewhere));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = *last;
        match action {
            Action::TimePasses => {
                state.now += 1;
                state.boottime += 1;
                state.unwritten += u8::from(state.lock_time.is_some());
                state.lock_time = state.lock_time.map(|lock_time| lock_time + 1);
            }
            Action::Write => state.write(),
            Action::Grant => {
                // A grant writes a record.
                state.write();
                state.granted = Some((state.now, state.last.lock_time));
            }
            Action::Crash => {
                state.lock_time = None;
                state.is_down_since = state.now - state.unwritten;
            }
            Action::Start => self.start(&mut state),
            Action::StartElsewhere(boottime) => {
                state.boot = (state.boot + 1) % 3;
                state.boottime = boottime;
                state.n_unknown += state.now - state.is_down_since;
                self.start(&mut state);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("never early", |_, state: &State| {
                match (state.granted, state.lock_time) {
                    (Some((at, granted)), Some(lock_time)) => {
                        lock_time < granted + TTL || state.now >= at + TTL
                    }
                    _ => true,
                }
            }),
            Property::always("late by what is unknown at most", |_, state: &State| {
                match (state.granted, state.lock_time) {
                    (Some((at, granted)), Some(lock_time)) => {
                        let is_over = lock_time >= granted + TTL;
                        is_over || state.now < at + TTL + state.n_unknown
                    }
                    _ => true,
                }
            }),
            Property::sometimes("a lease outlives a crash", |_, state: &State| {
                state.granted.is_some_and(|(at, _)| at < state.is_down_since)
                    && state.lock_time.is_some()
            }),
        ]
    }
}

impl State {
    fn write(&mut self) {
        if let Some(lock_time) = self.lock_time {
            self.last = Record { boot: self.boot, boottime: self.boottime, lock_time };
            self.unwritten = 0;
        }
    }
}

impl LockTime {
    /// Applies the rule.
    fn start(&self, state: &mut State) {
        let Record { boot, boottime, lock_time } = state.last;
        let is_known = if boot == state.boot {
            self.advances_on_same_boot
        } else {
            !self.stands_still_on_another
        };
        let passed = if is_known { state.boottime.saturating_sub(boottime) } else { 0 };
        state.lock_time = Some(lock_time + passed);
        state.n_starts += 1;
        // A start writes a record.
        state.write();
    }
}

fn check(advances_on_same_boot: bool, stands_still_on_another: bool) -> impl Checker<LockTime> {
    LockTime { advances_on_same_boot, stands_still_on_another }
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join()
}

#[test]
fn with_both_halves_a_lease_never_ends_early_and_late_only_by_the_unknown_time() {
    let checker = check(true, true);
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1_000, "too small to mean anything");
}

#[test]
fn a_server_that_stands_still_over_every_restart_lets_a_crash_loop_extend_a_lease() {
    check(false, true).assert_any_discovery("late by what is unknown at most");
}

#[test]
fn a_server_that_trusts_another_boots_clock_ends_a_lease_early() {
    check(true, false).assert_any_discovery("never early");
}
