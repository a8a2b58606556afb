//! A model of lock time across nodes: it continues from the last record by the time that has certainly passed since.
//! The writer of the record knows that time. Another node counts from the receipt of the record.
//!
//! Time advances in steps, and two nodes have clocks that show it differently. One of them leads and writes. The other
//! polls from time to time, and the response takes a while. One lease is granted, and its owner relies on it for `TTL`
//! steps. The leader can crash at any step, and either node can take over.

use stateright::{Checker, HasDiscoveries, Model, Property};

const TTL: u8 = 2;
const TIME_MAX: u8 = 5;
const TAKEOVERS_MAX: u8 = 2;
/// What the clock of each node shows at the start.
const OFFSETS: [u8; 2] = [0, 3];

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// Count only from the receipt of the last record.
    LastRecord,
    /// Count from the receipt of any record, even an earlier one.
    AnyObservation,
    /// Add the TTL of the leader key.
    PlusTtl,
    /// Count by the time since boot, even that of another machine.
    ForeignBoottime,
    /// Count from when the record was requested instead of received.
    ReceivedWhenAsked,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Record {
    seq: u8,
    node: usize,
    boottime: u8,
    lock_time: u8,
}

/// The last receipt of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Receipt {
    seq: u8,
    boottime: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct State {
    now: u8,
    last: Record,
    /// The leader, and its lock time.
    leader: Option<(usize, u8)>,
    received: [Receipt; 2],
    /// When each node sent its pending poll, by its clock.
    asked: [Option<u8>; 2],
    /// True time and lock time of the grant.
    granted: Option<(u8, u8)>,
    n_takeovers: u8,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Action {
    TimePasses,
    Write,
    Grant,
    Ask(usize),
    Receive(usize),
    Crash,
    TakeOver(usize),
}

impl Model for Rule {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let last = Record { seq: 1, node: 0, boottime: OFFSETS[0], lock_time: 0 };
        vec![State {
            now: 0,
            last,
            leader: Some((0, 0)),
            received: [Receipt::default(); 2],
            asked: [None; 2],
            granted: None,
            n_takeovers: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend((state.now < TIME_MAX).then_some(Action::TimePasses));
        for node in 0..2 {
            let leads = state.leader.is_some_and(|(leader, _)| leader == node);
            if !leads {
                let is_asked = state.asked[node].is_some();
                actions.push(if is_asked { Action::Receive(node) } else { Action::Ask(node) });
            }
        }
        match state.leader {
            Some((node, lock_time)) => {
                // One record at a time is enough.
                let is_new = state.last.node != node || state.last.lock_time < lock_time;
                actions.extend(is_new.then_some(Action::Write));
                actions.extend(state.granted.is_none().then_some(Action::Grant));
                actions.extend((state.n_takeovers < TAKEOVERS_MAX).then_some(Action::Crash));
            }
            None => actions.extend([0, 1].map(Action::TakeOver)),
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = *last;
        match action {
            Action::TimePasses => {
                state.now += 1;
                state.leader = state.leader.map(|(node, lock_time)| (node, lock_time + 1));
            }
            Action::Write => state.write(),
            Action::Grant => {
                // A grant writes a record.
                state.write();
                state.granted = Some((state.now, state.last.lock_time));
            }
            Action::Ask(node) => state.asked[node] = Some(state.boottime(node)),
            Action::Receive(node) => self.receive(&mut state, node),
            Action::Crash => state.leader = None,
            Action::TakeOver(node) => {
                // A node reads the journal before it takes over.
                state.asked[node] = state.asked[node].or(Some(state.boottime(node)));
                let before = state.received[node];
                self.receive(&mut state, node);
                let lock_time = self.lock_time(&state, node, before);
                state.leader = Some((node, lock_time));
                state.n_takeovers += 1;
                state.write();
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("never early", |_, state: &State| {
                match (state.granted, state.leader) {
                    (Some((at, granted)), Some((_, lock_time))) => {
                        lock_time < granted + TTL || state.now >= at + TTL
                    }
                    _ => true,
                }
            }),
            Property::always("lock time never goes back", |_, state: &State| {
                state.leader.is_none_or(|(_, lock_time)| lock_time >= state.last.lock_time)
            }),
            Property::sometimes(
                "a follower that had the last record is not late",
                |_, state: &State| {
                    let is_exact = |(at, granted): (u8, u8), lock_time: u8| {
                        lock_time - granted == state.now - at
                    };
                    match (state.granted, state.leader) {
                        (Some(grant), Some((1, lock_time))) => {
                            state.now > grant.0 + 1 && is_exact(grant, lock_time)
                        }
                        _ => false,
                    }
                },
            ),
        ]
    }
}

impl State {
    fn boottime(&self, node: usize) -> u8 {
        self.now + OFFSETS[node]
    }

    fn write(&mut self) {
        if let Some((node, lock_time)) = self.leader {
            let (seq, boottime) = (self.last.seq + 1, self.boottime(node));
            self.last = Record { seq, node, boottime, lock_time };
        }
    }
}

impl Rule {
    fn receive(&self, state: &mut State, node: usize) {
        let (asked, now) = (state.asked[node].take(), state.boottime(node));
        if state.received[node].seq == state.last.seq {
            return;
        }
        let boottime = match self {
            Rule::ReceivedWhenAsked => asked.unwrap_or(now),
            _ => now,
        };
        state.received[node] = Receipt { seq: state.last.seq, boottime };
    }

    fn lock_time(&self, state: &State, node: usize, before: Receipt) -> u8 {
        let (last, now) = (state.last, state.boottime(node));
        let elapsed = match self {
            Rule::ForeignBoottime => now.saturating_sub(last.boottime),
            _ if last.node == node => now - last.boottime,
            Rule::AnyObservation if before.seq > 0 => now - before.boottime,
            Rule::PlusTtl => now - state.received[node].boottime + 2,
            _ => now - state.received[node].boottime,
        };
        last.lock_time + elapsed
    }
}

fn check(rule: Rule) -> impl Checker<Rule> {
    rule.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join()
}

#[test]
fn by_the_last_record_no_lease_ends_early() {
    let checker = check(Rule::LastRecord);
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1_000, "too small to mean anything");
}

#[test]
fn by_an_older_observation_a_lease_ends_early() {
    check(Rule::AnyObservation).assert_any_discovery("never early");
}

#[test]
fn with_the_ttl_of_the_seat_added_a_lease_ends_early() {
    check(Rule::PlusTtl).assert_any_discovery("never early");
}

#[test]
fn by_the_clock_of_another_node_a_lease_ends_early() {
    check(Rule::ForeignBoottime).assert_any_discovery("never early");
}

#[test]
fn counted_from_when_it_was_asked_for_a_lease_ends_early() {
    check(Rule::ReceivedWhenAsked).assert_any_discovery("never early");
}
