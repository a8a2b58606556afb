//! A model of several machines on one store: an append succeeds only if the leader key is still the one that this
//! leader created (its revision, R) and nothing was appended since this leader's last read (the head's revision, H).
//!
//! There are two nodes. The lease of the leader key can expire at any time. Messages and responses arrive late, more
//! than once or never.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

const N_NODES: usize = 2;
const N_OPERATIONS: u8 = 3;
const N_ELECTIONS: u8 = 3;

struct Guard {
    checks_leader: bool,
    checks_head: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Store {
    revision: u8,
    /// The revision at which the leader key was created, if it exists.
    leader: Option<u8>,
    head: u8,
    journal: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Node {
    Follower,
    /// Has created the leader key, but not read the journal.
    Elected(u8),
    Leader {
        epoch: u8,
        head: u8,
        /// The number of journal entries it has in memory.
        n_known: usize,
        /// The operation it has sent and whose outcome it does not know.
        pending: Option<u8>,
    },
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Append {
    node: usize,
    epoch: u8,
    head: u8,
    operation: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    store: Store,
    nodes: [Node; N_NODES],
    /// All messages ever sent: each can arrive any number of times.
    sent: BTreeSet<Append>,
    n_operations: u8,
    n_elections: u8,
}

#[derive(Clone, PartialEq, Debug)]
enum Action {
    Elect(usize),
    LeaderKeyExpires,
    Load(usize),
    NoticeLoss(usize),
    Send(usize),
    Arrive { append: Append, answer_is_lost: bool },
}

impl Model for Guard {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let store = Store { revision: 0, leader: None, head: 0, journal: Vec::new() };
        let nodes = [Node::Follower, Node::Follower];
        vec![State { store, nodes, sent: BTreeSet::new(), n_operations: 0, n_elections: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (n, node) in state.nodes.iter().enumerate() {
            let can_elect = state.store.leader.is_none() && state.n_elections < N_ELECTIONS;
            match node {
                Node::Follower if can_elect => actions.push(Action::Elect(n)),
                Node::Follower => {}
                Node::Elected(_) => actions.push(Action::Load(n)),
                Node::Leader { epoch, pending, .. } => {
                    if pending.is_none() && state.n_operations < N_OPERATIONS {
                        actions.push(Action::Send(n));
                    }
                    if state.store.leader != Some(*epoch) {
                        actions.push(Action::NoticeLoss(n));
                    }
                }
            }
        }
        if state.store.leader.is_some() {
            actions.push(Action::LeaderKeyExpires);
        }
        for append in &state.sent {
            for answer_is_lost in [false, true] {
                actions.push(Action::Arrive { append: append.clone(), answer_is_lost });
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Elect(n) => {
                state.n_elections += 1;
                state.store.revision += 1;
                state.store.leader = Some(state.store.revision);
                state.nodes[n] = Node::Elected(state.store.revision);
            }
            Action::LeaderKeyExpires => state.store.leader = None,
            Action::Load(n) => {
                let Node::Elected(epoch) = state.nodes[n] else { return None };
                let (head, n_known) = (state.store.head, state.store.journal.len());
                state.nodes[n] = Node::Leader { epoch, head, n_known, pending: None };
            }
            Action::NoticeLoss(n) => state.nodes[n] = Node::Follower,
            Action::Send(n) => {
                let operation = state.n_operations;
                state.n_operations += 1;
                let Node::Leader { epoch, head, pending, .. } = &mut state.nodes[n] else {
                    return None;
                };
                *pending = Some(operation);
                state.sent.insert(Append { node: n, epoch: *epoch, head: *head, operation });
            }
            Action::Arrive { append, answer_is_lost } => {
                self.arrive(&mut state, &append, answer_is_lost);
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("an append is applied at most once", |_, state: &State| {
                let distinct: BTreeSet<_> = state.store.journal.iter().collect();
                distinct.len() == state.store.journal.len()
            }),
            Property::always("the leader knows all there is", |_, state: &State| {
                state.nodes.iter().all(|node| knows_all(&state.store, node))
            }),
            Property::sometimes("two leaders in a row append", |_, state: &State| {
                state.n_elections > 1 && state.store.journal.len() > 1
            }),
        ]
    }
}

impl Guard {
    fn arrive(&self, state: &mut State, append: &Append, answer_is_lost: bool) {
        let store = &mut state.store;
        let is_leader = !self.checks_leader || store.leader == Some(append.epoch);
        let is_next = !self.checks_head || store.head == append.head;
        if is_leader && is_next {
            store.revision += 1;
            store.head = store.revision;
            store.journal.push(append.operation);
        }
        let Node::Leader { epoch, head, n_known, pending } = &mut state.nodes[append.node] else {
            return;
        };
        if answer_is_lost || *epoch != append.epoch || *pending != Some(append.operation) {
            return;
        }
        // Even after a rejection: if the operation is in the journal, a copy of the message succeeded.
        if store.journal.last() == Some(&append.operation) {
            (*head, *n_known, *pending) = (store.head, store.journal.len(), None);
        } else {
            // Fenced: the node drops its memory.
            state.nodes[append.node] = Node::Follower;
        }
    }
}

/// Returns whether a node with the leader key has the whole journal in memory, except for its own pending operation.
fn knows_all(store: &Store, node: &Node) -> bool {
    let Node::Leader { epoch, n_known, pending, .. } = node else { return true };
    let unknown = &store.journal[(*n_known).min(store.journal.len())..];
    store.leader != Some(*epoch) || unknown.iter().all(|operation| Some(*operation) == *pending)
}

fn check(checks_leader: bool, checks_head: bool) -> impl Checker<Guard> {
    Guard { checks_leader, checks_head }
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join()
}

#[test]
fn with_both_revisions_nothing_is_applied_twice_and_a_leader_knows_all() {
    let checker = check(true, true);
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1_000, "too small to mean anything");
}

#[test]
fn without_the_heads_revision_a_repeated_append_is_applied_twice() {
    check(true, false).assert_any_discovery("an append is applied at most once");
}

#[test]
fn without_the_leaders_revision_a_zombie_appends_behind_the_leaders_back() {
    check(false, true).assert_any_discovery("the leader knows all there is");
}
