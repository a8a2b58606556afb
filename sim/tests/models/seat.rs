//! A model of two additions to the guard: a confirmation before every response that changes nothing, and a nonce,
//! because a store that is rolled back repeats its revisions.
//!
//! There are two nodes, and a store that can be copied once and rolled back to its copy once. The leader key can expire
//! at any time, and a member of the store can be behind. A leader that is asked for the journal's contents responds
//! from memory.

use stateright::{Checker, HasDiscoveries, Model, Property};

const N_NODES: usize = 2;
const N_OPERATIONS: u8 = 2;
const N_ELECTIONS: u8 = 3;

/// How a response that changes nothing is confirmed.
#[derive(Clone, Copy, PartialEq)]
enum Confirm {
    /// After the response is prepared, by comparing the leader key and the head.
    Whole,
    WithoutHead,
    /// By a member that might be behind.
    Stale,
    BeforeApplying,
    Never,
}

struct Seat {
    has_nonce: bool,
    confirm: Confirm,
}

/// The revision of the leader key, and its nonce.
type Tenure = (u8, u8);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Store {
    revision: u8,
    leader: Option<Tenure>,
    head: u8,
    journal: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Node {
    Follower,
    Elected(Tenure),
    Leader { tenure: Tenure, head: u8, known: Vec<u8>, read: Read },
}

/// A read of the journal's contents, and whether the response was true at any time since the request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Read {
    None,
    /// Confirmed before the request.
    Early,
    Asked {
        was_true: bool,
    },
    Confirmed {
        was_true: bool,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    store: Store,
    /// A member that might be behind.
    behind: Store,
    copy: Option<Store>,
    is_put_back: bool,
    nodes: [Node; N_NODES],
    n_operations: u8,
    n_elections: u8,
    has_lied: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Action {
    Elect(usize),
    SeatRunsOut,
    Load(usize),
    Append(usize),
    Ask(usize),
    Confirm(usize),
    Answer(usize),
    CatchUp,
    Copy,
    PutBack,
}

impl Model for Seat {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let store = Store { revision: 0, leader: None, head: 0, journal: Vec::new() };
        vec![State {
            behind: store.clone(),
            store,
            copy: None,
            is_put_back: false,
            nodes: [Node::Follower, Node::Follower],
            n_operations: 0,
            n_elections: 0,
            has_lied: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (n, node) in state.nodes.iter().enumerate() {
            let can_elect = state.store.leader.is_none() && state.n_elections < N_ELECTIONS;
            match node {
                Node::Follower if can_elect => actions.push(Action::Elect(n)),
                Node::Follower => {}
                Node::Elected(_) => actions.push(Action::Load(n)),
                // A node does one thing at a time.
                Node::Leader { read, .. } => match (read, self.confirm) {
                    (Read::None, confirm) => {
                        let append = state.n_operations < N_OPERATIONS;
                        actions.extend(append.then_some(Action::Append(n)));
                        let early = confirm == Confirm::BeforeApplying;
                        actions.push(if early { Action::Confirm(n) } else { Action::Ask(n) });
                    }
                    (Read::Early, _) => actions.push(Action::Ask(n)),
                    (Read::Asked { .. }, Confirm::BeforeApplying | Confirm::Never) => {
                        actions.push(Action::Answer(n));
                    }
                    (Read::Asked { .. }, _) => actions.push(Action::Confirm(n)),
                    (Read::Confirmed { .. }, _) => actions.push(Action::Answer(n)),
                },
            }
        }
        actions.extend(state.store.leader.is_some().then_some(Action::SeatRunsOut));
        actions.extend((state.behind != state.store).then_some(Action::CatchUp));
        actions.extend(state.copy.is_none().then_some(Action::Copy));
        actions.extend((state.copy.is_some() && !state.is_put_back).then_some(Action::PutBack));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Elect(n) => {
                state.n_elections += 1;
                state.store.revision += 1;
                let nonce = if self.has_nonce { state.n_elections } else { 0 };
                let tenure = (state.store.revision, nonce);
                state.store.leader = Some(tenure);
                state.nodes[n] = Node::Elected(tenure);
            }
            Action::SeatRunsOut => {
                state.store.revision += 1;
                state.store.leader = None;
            }
            Action::Load(n) => {
                let Node::Elected(tenure) = state.nodes[n] else { return None };
                let (head, known) = (state.store.head, state.store.journal.clone());
                // The read counts only while the leader key is the node's own.
                state.nodes[n] = if state.store.leader == Some(tenure) {
                    Node::Leader { tenure, head, known, read: Read::None }
                } else {
                    Node::Follower
                };
            }
            Action::Append(n) => state.append(n),
            Action::Ask(n) => {
                let Node::Leader { read, .. } = &mut state.nodes[n] else { return None };
                *read = Read::Asked { was_true: false };
            }
            Action::Confirm(n) => self.confirm(&mut state, n),
            Action::Answer(n) => {
                let Node::Leader { read, .. } = &mut state.nodes[n] else { return None };
                let was_true = matches!(
                    read,
                    Read::Asked { was_true: true } | Read::Confirmed { was_true: true }
                );
                *read = Read::None;
                state.has_lied |= !was_true;
            }
            Action::CatchUp => state.behind = state.store.clone(),
            Action::Copy => state.copy = Some(state.store.clone()),
            Action::PutBack => {
                state.is_put_back = true;
                state.store = state.copy.clone()?;
                state.behind = state.store.clone();
            }
        }
        for node in &mut state.nodes {
            if let Node::Leader { known, read, .. } = node
                && let Read::Asked { was_true } | Read::Confirmed { was_true } = read
            {
                *was_true |= *known == state.store.journal;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the leader knows all records", |_, state: &State| {
                state.nodes.iter().all(|node| match node {
                    Node::Leader { tenure, head, known, .. } => {
                        let has_seat = state.store.leader == Some(*tenure);
                        // A rollback under the leader is noticed by the head.
                        let is_there = *head == state.store.head;
                        !has_seat || !is_there || *known == state.store.journal
                    }
                    _ => true,
                })
            }),
            Property::always("no answer is out of date", |_, state: &State| !state.has_lied),
            Property::sometimes("a server leads after a rollback", |_, state: &State| {
                let leads = |node: &Node| matches!(node, Node::Leader { .. });
                state.is_put_back && state.n_elections > 1 && state.nodes.iter().any(leads)
            }),
        ]
    }
}

impl State {
    fn append(&mut self, n: usize) {
        let operation = self.n_operations;
        self.n_operations += 1;
        let Node::Leader { tenure, head, known, .. } = &mut self.nodes[n] else { return };
        if self.store.leader == Some(*tenure) && self.store.head == *head {
            self.store.revision += 1;
            self.store.head = self.store.revision;
            self.store.journal.push(operation);
            *head = self.store.head;
            known.push(operation);
        } else {
            self.nodes[n] = Node::Follower;
        }
    }
}

impl Seat {
    fn confirm(&self, state: &mut State, n: usize) {
        let store = if self.confirm == Confirm::Stale { &state.behind } else { &state.store };
        let Node::Leader { tenure, head, read, .. } = &mut state.nodes[n] else { return };
        let is_whole = self.confirm == Confirm::WithoutHead || store.head == *head;
        if store.leader != Some(*tenure) || !is_whole {
            state.nodes[n] = Node::Follower;
            return;
        }
        *read = match *read {
            Read::Asked { was_true } => Read::Confirmed { was_true },
            _ => Read::Early,
        };
    }
}

fn check(has_nonce: bool, confirm: Confirm) -> impl Checker<Seat> {
    Seat { has_nonce, confirm }
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join()
}

#[test]
fn with_a_nonce_and_a_whole_confirmation_no_answer_is_out_of_date() {
    let checker = check(true, Confirm::Whole);
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1_000, "too small to mean anything");
}

#[test]
fn without_a_nonce_a_zombie_of_before_passes_for_the_leader_of_after() {
    check(false, Confirm::Whole).assert_any_discovery("the leader knows all records");
}

#[test]
fn a_confirmation_without_the_head_answers_with_what_was_put_back() {
    check(true, Confirm::WithoutHead).assert_any_discovery("no answer is out of date");
}

#[test]
fn a_confirmation_by_a_stale_member_does_not_count() {
    check(true, Confirm::Stale).assert_any_discovery("no answer is out of date");
}

#[test]
fn a_confirmation_before_applying_does_not_count() {
    check(true, Confirm::BeforeApplying).assert_any_discovery("no answer is out of date");
}

#[test]
fn without_a_confirmation_a_zombie_answers() {
    check(true, Confirm::Never).assert_any_discovery("no answer is out of date");
}
