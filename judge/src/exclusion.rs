//! No more clients hold a lock at the same time than its mode allows.

use std::collections::VecDeque;

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// By one client.
    Exclusive,
    /// By any number of clients that share it.
    Shared,
    /// By this many clients.
    Counted(u32),
}

impl Mode {
    /// Returns how many clients can hold the lock beside one that holds it in this mode, if one of them holds it in the
    /// mode `other`.
    fn beside(self, other: Self) -> usize {
        match (self, other) {
            (Mode::Shared, Mode::Shared) => usize::MAX,
            (Mode::Counted(limit), Mode::Counted(_)) => (limit as usize).saturating_sub(1),
            _ => 0,
        }
    }
}

/// More clients than allowed held a lock at the same time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict<Id, At> {
    /// The client that was one too many.
    pub id: Id,
    /// When it began to hold the lock.
    pub from: At,
    /// The clients that held the lock at that time.
    pub others: Vec<Id>,
}

/// The holders of one lock. It keeps only those that a later record can still conflict with.
#[derive(Clone, Debug)]
pub struct Exclusion<Id, At> {
    /// In the order in which they began.
    holdings: VecDeque<Holding<Id, At>>,
}

#[derive(Clone, Debug)]
struct Holding<Id, At> {
    id: Id,
    mode: Mode,
    from: At,
    until: Option<At>,
    /// Other clients that began earlier and held the lock at `from`.
    others: Vec<(Id, Mode)>,
    is_reported: bool,
}

impl<Id, At> Default for Exclusion<Id, At> {
    fn default() -> Self {
        Self { holdings: VecDeque::new() }
    }
}

impl<Id: Copy + Eq, At: Copy + Ord> Exclusion<Id, At> {
    /// Records that a client certainly holds the lock from `from` on. Calls must be in chronological order. A client
    /// can begin again before its previous holding ends: it does not conflict with itself.
    pub fn begin(&mut self, id: Id, mode: Mode, from: At) -> Option<Conflict<Id, At>> {
        let (until, others, is_reported) = (None, Vec::new(), false);
        let mut holding = Holding { id, mode, from, until, others, is_reported };
        for other in &self.holdings {
            if other.until.is_some_and(|until| until > from) {
                holding.meets(other.id, other.mode);
            }
        }
        let conflict = holding.conflict();
        self.holdings.push_back(holding);
        self.forget(from);
        conflict
    }

    /// Records that a client certainly holds the lock until `until`, which can be in the future.
    pub fn end(&mut self, id: Id, until: At) -> Vec<Conflict<Id, At>> {
        let is_it = |holding: &Holding<Id, At>| holding.id == id && holding.until.is_none();
        let Some(place) = self.holdings.iter().position(is_it) else { return Vec::new() };
        self.holdings[place].until = Some(until);
        let mode = self.holdings[place].mode;
        let mut conflicts = Vec::new();
        for later in self.holdings.iter_mut().skip(place + 1).filter(|later| later.from < until) {
            later.meets(id, mode);
            conflicts.extend(later.conflict());
        }
        if let Some(newest) = self.holdings.back() {
            self.forget(newest.from);
        }
        conflicts
    }

    /// Ends all holdings whose end is not known at `until`, the end of the history.
    pub fn finish(&mut self, until: At) -> Vec<Conflict<Id, At>> {
        let open = self.holdings.iter().filter(|holding| holding.until.is_none());
        let open: Vec<_> = open.map(|holding| holding.id).collect();
        open.into_iter().flat_map(|id| self.end(id, until)).collect()
    }

    /// Returns the number of holdings that later records can still conflict with.
    #[cfg(test)]
    fn n_kept(&self) -> usize {
        self.holdings.len()
    }

    /// Removes holdings that ended at `now` or before, except those that began during one whose end is not known.
    fn forget(&mut self, now: At) {
        let mut is_settled = true;
        self.holdings.retain(|holding| {
            let is_over = is_settled && holding.until.is_some_and(|until| until <= now);
            is_settled &= holding.until.is_some();
            !is_over
        });
    }
}

impl<Id: Copy + Eq, At: Copy> Holding<Id, At> {
    fn meets(&mut self, id: Id, mode: Mode) {
        if id != self.id && !self.others.iter().any(|(known, _)| *known == id) {
            self.others.push((id, mode));
        }
    }

    /// Returns the conflict once, when there are too many others for the first time.
    fn conflict(&mut self) -> Option<Conflict<Id, At>> {
        let allowed = self.others.iter().map(|(_, mode)| self.mode.beside(*mode)).min();
        if self.is_reported || allowed.is_none_or(|allowed| self.others.len() <= allowed) {
            return None;
        }
        self.is_reported = true;
        let others = self.others.iter().map(|(id, _)| *id).collect();
        Some(Conflict { id: self.id, from: self.from, others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Mode::{Counted, Exclusive, Shared};

    /// Records holdings with known ends, and returns who was one too many, with those that held the lock.
    fn judged(holdings: &[(char, Mode, u64, u64)]) -> Vec<(char, Vec<char>)> {
        let mut exclusion = Exclusion::default();
        let mut found = Vec::new();
        for (id, mode, from, until) in holdings {
            found.extend(exclusion.begin(*id, *mode, *from));
            found.extend(exclusion.end(*id, *until));
        }
        found.into_iter().map(|conflict| (conflict.id, conflict.others)).collect()
    }

    #[test]
    fn one_after_the_other_is_fine_and_is_forgotten() {
        let mut exclusion = Exclusion::default();
        for n in 1..1000 {
            assert_eq!(exclusion.begin(n, Exclusive, n * 10), None);
            assert_eq!(exclusion.end(n, n * 10 + 10), []);
            assert_eq!(exclusion.n_kept(), 1);
        }
    }

    #[test]
    fn two_holders_are_found_whichever_end_is_known_first() {
        let expected = Conflict { id: 2, from: 20, others: vec![1] };
        let mut exclusion = Exclusion::default();
        assert_eq!(exclusion.begin(1, Exclusive, 10), None);
        assert_eq!(exclusion.begin(2, Exclusive, 20), None);
        let mut other_way = exclusion.clone();
        assert_eq!(exclusion.end(2, 25), []);
        assert_eq!(exclusion.end(1, 21), std::slice::from_ref(&expected));
        assert_eq!(other_way.end(1, 21), [expected]);
        assert_eq!(other_way.end(2, 25), []);
    }

    #[test]
    fn an_end_in_the_future_conflicts_with_a_later_holder() {
        let holdings =
            [('a', Exclusive, 10, 100), ('b', Exclusive, 99, 100), ('c', Exclusive, 100, 101)];
        assert_eq!(judged(&holdings), [('b', vec!['a'])]);
    }

    #[test]
    fn an_end_that_is_known_late_is_no_conflict_by_itself() {
        let mut exclusion = Exclusion::default();
        exclusion.begin(1, Exclusive, 10);
        exclusion.begin(2, Exclusive, 20);
        assert_eq!(exclusion.end(1, 20), []);
        assert_eq!(exclusion.end(2, 30), []);
    }

    #[test]
    fn a_holder_whose_end_is_never_known_holds_until_the_history_ends() {
        let mut exclusion = Exclusion::default();
        exclusion.begin(1, Exclusive, 10);
        exclusion.begin(2, Exclusive, 20);
        exclusion.end(2, 25);
        assert_eq!(exclusion.end(7, 30), [], "another lease was released");
        let conflicts = exclusion.finish(99);
        assert_eq!(conflicts, [Conflict { id: 2, from: 20, others: vec![1] }]);
        assert_eq!(exclusion.finish(99), []);
    }

    #[test]
    fn as_many_as_the_mode_allows_are_fine() {
        let all = |mode| [('a', mode, 1, 9), ('b', mode, 2, 9), ('c', mode, 3, 9)];
        assert_eq!(judged(&all(Shared)), []);
        assert_eq!(judged(&all(Counted(3))), []);
        assert_eq!(judged(&all(Counted(2))), [('c', vec!['a', 'b'])]);
        let mixed = [('a', Shared, 1, 9), ('b', Exclusive, 2, 9), ('c', Counted(5), 3, 9)];
        assert_eq!(judged(&mixed), [('b', vec!['a']), ('c', vec!['a', 'b'])]);
    }

    #[test]
    fn a_client_does_not_conflict_with_itself() {
        let renewed = [('a', Exclusive, 1, 5), ('a', Exclusive, 3, 9), ('b', Exclusive, 8, 10)];
        assert_eq!(judged(&renewed), [('b', vec!['a'])]);
    }
}
