//! A suspicion of deadlock: an owner that waits for somebody who, perhaps through others, waits for it.
//!
//! Advisory. Nobody is refused because of it: an owner may be many threads, and one that waits need not keep another
//! from giving back what it holds. The walk over owners is bounded, so a long chain may go unseen.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::sync::Arc;

use crate::arena::Slot;
use crate::circle::{ELSEWHERE, Word};
use crate::lease::{Lease, LeaseNumber, Phase};
use crate::lock::Lock;
use crate::mutant;
use crate::owner::Known;
use crate::queue::Queue;
use crate::state::State;

/// What a walk came to.
pub(crate) struct Walk {
    /// The circle in words, if there is one.
    pub(crate) circle: Option<Arc<str>>,
    pub(crate) n_edges: usize,
}

/// That an owner waits for a lock because of another owner.
#[derive(Clone, Copy)]
struct Wait {
    who: Slot<Known>,
    lock: Slot<Lock>,
    whom: Slot<Known>,
}

impl State {
    /// Follows who waits for whom from a waiting lease, over at most `n_edges_max` waits. `reason_bytes_max` bounds the
    /// words.
    pub(crate) fn seek_circle(
        &self,
        slot: Slot<Lease>,
        n_edges_max: usize,
        reason_bytes_max: usize,
    ) -> Walk {
        let origin = self.leases[slot].owner;
        // By whom each owner was reached.
        let mut reached: BTreeMap<Slot<Known>, Wait> = BTreeMap::new();
        let mut to_follow = VecDeque::from([self.together(slot)]);
        let mut n_edges = 0;
        while let Some(waiting) = to_follow.pop_front() {
            let waits = waiting.into_iter().flat_map(|waiter| self.waits(waiter));
            for wait in waits {
                if n_edges == n_edges_max {
                    return Walk { circle: None, n_edges };
                }
                n_edges += 1;
                if wait.whom == origin {
                    let circle = self.circle(&reached, wait, origin);
                    return Walk { circle: Some(self.tell(&circle, reason_bytes_max)), n_edges };
                }
                if !reached.contains_key(&wait.whom) && !mutant!(DeadlockOfTwoUnseen) {
                    reached.insert(wait.whom, wait);
                    to_follow.push_back(self.waiting_of(wait.whom).collect());
                }
            }
        }
        Walk { circle: None, n_edges }
    }

    /// Whom a lease waits for: whoever holds its lock, and whoever is first in the queue, because nobody is passed.
    /// What a grace period reverses it also puts right when it ends, so it counts for nothing here.
    fn waits(&self, waiter: Slot<Lease>) -> impl Iterator<Item = Wait> + '_ {
        let Lease { lock, owner: who, phase, .. } = self.leases[waiter];
        let first = self.locks[lock].queue().and_then(Queue::first);
        let first = first.filter(|first| *first != waiter && !mutant!(DeadlockInQueueUnseen));
        let others = self.holders(lock).chain(first);
        let others = others.filter(move |_| phase == Phase::Waiting);
        others.map(move |other| Wait { who, lock, whom: self.leases[other].owner })
    }

    fn waiting_of(&self, owner: Slot<Known>) -> impl Iterator<Item = Slot<Lease>> + '_ {
        let all = (owner, LeaseNumber(0))..=(owner, LeaseNumber(u64::MAX));
        self.waiting.range(all).filter_map(|(_, number)| self.find_lease(*number))
    }

    /// The waits that lead from `origin` back to it, in order; `last` is the one that closes the circle.
    fn circle(
        &self,
        reached: &BTreeMap<Slot<Known>, Wait>,
        last: Wait,
        origin: Slot<Known>,
    ) -> Vec<Wait> {
        let mut circle = vec![last];
        while let Some(wait) = circle.last().filter(|wait| wait.who != origin) {
            match reached.get(&wait.who) {
                Some(before) => circle.push(*before),
                None => break,
            }
        }
        circle.reverse();
        circle
    }

    /// The circle in words. Whoever may read of the first lock's namespace learns nothing of another one.
    fn tell(&self, circle: &[Wait], bytes_max: usize) -> Arc<str> {
        let home = circle.first().map(|wait| self.locks[wait.lock].namespace);
        let mut told = String::new();
        for wait in circle {
            let start = told.len();
            let before = if start == 0 { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = if Some(self.locks[wait.lock].namespace) == home {
                let (who, whom) = (self.owner(wait.who), self.owner(wait.whom));
                let words = [&who.instance, &*self.locks[wait.lock].name, &whom.instance].map(Word);
                let [who, name, whom] = words;
                write!(told, "{before}{who} waits for {name} because of {whom}")
            } else {
                write!(told, "{before}{ELSEWHERE}")
            };
            if told.len() > bytes_max {
                told.truncate(start);
                break;
            }
        }
        told.into()
    }
}
