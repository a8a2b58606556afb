//! Checks that a history is linearizable: the operations could have happened one at a time, in some order.
//!
//! The search is that of Wing and Gong, with Lowe's memory of states already tried. The next operation is any one that
//! was called before every remaining operation returned, if the lock could have given that response.

use std::collections::BTreeSet;

/// One request to one lock and its response, with the times between which it took effect.
#[derive(Clone, Debug)]
pub struct Operation {
    /// When the client sent the request.
    pub called_at: u64,
    /// When the client received the response.
    pub returned_at: u64,
    /// The request and its response.
    pub what: What,
}

/// The kind of an operation and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// An acquire that was granted with this token.
    Granted(u64),
    /// An acquire that was refused because the lock was held.
    Refused,
    /// A release of the lease with this token.
    Released(u64),
    /// A release that failed because the lease had ended.
    NotReleased(u64),
    /// A read that found the lock held with this token, or free.
    Seen(Option<u64>),
}

/// A lock on which operations happen one at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Lock {
    holder: Option<u64>,
    last: u64,
}

impl Lock {
    /// Returns the lock after the operation, or `None` if the operation could not have happened.
    fn after(self, what: What) -> Option<Self> {
        match what {
            What::Granted(token) => (self.holder.is_none() && token > self.last)
                .then_some(Self { holder: Some(token), last: token }),
            What::Refused => self.holder.is_some().then_some(self),
            What::Released(token) => {
                (self.holder == Some(token)).then_some(Self { holder: None, ..self })
            }
            What::NotReleased(token) => (self.holder != Some(token)).then_some(self),
            What::Seen(holder) => (self.holder == holder).then_some(self),
        }
    }
}

/// The operations done so far, which are all before `first` and those in `ahead`, with the resulting lock.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Done {
    first: usize,
    ahead: BTreeSet<usize>,
    lock: Lock,
}

/// Returns whether these operations on one lock could have happened one at a time, in some order.
pub fn is_linearizable(mut operations: Vec<Operation>) -> bool {
    operations.sort_by_key(|operation| operation.called_at);
    let start = Done { first: 0, ahead: BTreeSet::new(), lock: Lock::default() };
    let (mut to_try, mut tried) = (vec![start], BTreeSet::new());
    while let Some(done) = to_try.pop() {
        if done.first == operations.len() {
            return true;
        }
        if tried.insert(done.clone()) {
            to_try.extend(successors(&operations, &done));
        }
    }
    false
}

fn successors(operations: &[Operation], done: &Done) -> Vec<Done> {
    let left = || (done.first..operations.len()).filter(|n| !done.ahead.contains(n));
    let mut first_return = u64::MAX;
    let mut next = Vec::new();
    for n in left() {
        let operation = &operations[n];
        if operation.called_at > first_return {
            break;
        }
        first_return = first_return.min(operation.returned_at);
        next.push(n);
    }
    next.retain(|n| operations[*n].called_at <= first_return);
    next.into_iter().filter_map(|n| step(done, n, operations[n].what)).collect()
}

fn step(done: &Done, n: usize, what: What) -> Option<Done> {
    let mut next = Done { lock: done.lock.after(what)?, ..done.clone() };
    next.ahead.insert(n);
    while next.ahead.remove(&next.first) {
        next.first += 1;
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operations: &[(u64, u64, What)]) -> bool {
        let operation =
            |&(called_at, returned_at, what)| Operation { called_at, returned_at, what };
        is_linearizable(operations.iter().map(operation).collect())
    }

    #[test]
    fn what_could_have_happened_in_some_order_is_accepted() {
        let granted = What::Granted(1);
        assert!(check(&[(1, 9, granted), (2, 3, What::Seen(None)), (4, 5, What::Seen(Some(1)))]));
        assert!(check(&[(1, 2, granted), (3, 9, What::Released(1)), (4, 5, What::Granted(2))]));
        assert!(check(&[(1, 9, What::Refused), (2, 3, granted)]));
    }

    #[test]
    fn what_no_order_explains_is_refused() {
        let granted = What::Granted(1);
        assert!(!check(&[(1, 2, granted), (3, 4, What::Granted(2))]), "two holders");
        assert!(!check(&[(1, 2, granted), (3, 4, What::Seen(None))]), "a lost grant");
        assert!(!check(&[(1, 2, What::Refused), (3, 4, granted)]), "refused though free");
        let released = (3, 4, What::Released(1));
        assert!(!check(&[(1, 2, granted), released, (5, 6, What::Seen(Some(1)))]), "back again");
        assert!(!check(&[(1, 2, granted), released, (5, 6, granted)]), "a token twice");
    }
}
