//! Detects suspected deadlocks: an owner that waits for another owner which, perhaps through others, waits for it.
//!
//! The result is advisory, and no request is rejected because of it. An owner can be many threads, and one waiting
//! thread need not keep another from releasing what the owner holds. The walk over owners is bounded, so it can miss a
//! long chain.

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

/// The result of a walk.
pub(crate) struct Walk {
    /// A description of the circle, if there is one.
    pub(crate) circle: Option<Arc<str>>,
    pub(crate) n_edges: usize,
}

/// Records that one owner waits for a lock because of another owner.
#[derive(Clone, Copy)]
struct WaitEdge {
    who: Slot<Known>,
    lock: Slot<Lock>,
    whom: Slot<Known>,
}

impl State {
    /// Follows the waits from a waiting lease, over at most `n_edges_max` waits. `reason_bytes_max` bounds the
    /// description.
    pub(crate) fn seek_circle(
        &self,
        slot: Slot<Lease>,
        n_edges_max: usize,
        reason_bytes_max: usize,
    ) -> Walk {
        let origin = self.leases[slot].owner;
        // The wait through which each owner was reached.
        let mut reached: BTreeMap<Slot<Known>, WaitEdge> = BTreeMap::new();
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

    /// Returns the waits of a lease: for the holders of its lock, and for the first waiter in the queue, which no other
    /// waiter passes. Ignores that a grace period reverses the order of a queue, because this ends with the grace
    /// period.
    fn waits(&self, waiter: Slot<Lease>) -> impl Iterator<Item = WaitEdge> + '_ {
        let Lease { lock, owner: who, phase, .. } = self.leases[waiter];
        let first = self.locks[lock].queue().and_then(Queue::first);
        let first = first.filter(|first| *first != waiter && !mutant!(DeadlockInQueueUnseen));
        let others = self.holders(lock).chain(first);
        let others = others.filter(move |_| phase == Phase::Waiting);
        others.map(move |other| WaitEdge { who, lock, whom: self.leases[other].owner })
    }

    fn waiting_of(&self, owner: Slot<Known>) -> impl Iterator<Item = Slot<Lease>> + '_ {
        let all = (owner, LeaseNumber(0))..=(owner, LeaseNumber(u64::MAX));
        self.waiting.range(all).filter_map(|(_, number)| self.find_lease(*number))
    }

    /// Returns the waits that lead from `origin` back to it, in order. `last` is the wait that closes the circle.
    fn circle(
        &self,
        reached: &BTreeMap<Slot<Known>, WaitEdge>,
        last: WaitEdge,
        origin: Slot<Known>,
    ) -> Vec<WaitEdge> {
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

    /// Describes the circle. Leaves out the names of locks in namespaces other than the first lock's, because readers
    /// of that namespace might lack permission for the others.
    fn tell(&self, circle: &[WaitEdge], bytes_max: usize) -> Arc<str> {
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
