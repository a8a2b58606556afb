//! Takes over: first creates the entry of the leader, then reads everything written before that.

use std::time::Duration;

use leasehold_base::pace;
use leasehold_core::mutant;

use super::{Options, SEAT_TTL, SharedSeat};
use crate::shared::backend::{Entry, Lease};
use crate::shared::campaign::campaign;
use crate::shared::follower::Follower;
use crate::shared::guard::{Guard, Tenure};
use crate::shared::keeper::Keeper;
use crate::shared::presence::Presence;
use crate::shared::reading::cut_off;
use crate::shared::scribe::{Desk, Scribe};
use crate::shared::store::LeaderStore;
use crate::shared::value::{LeaderValue, PeerValue};
use crate::shared::watch::Watch;
use crate::{Error, Leader, Loaded, Taken, Told};

/// Everything that was written before this node became leader.
pub(super) struct CaughtUp {
    pub(super) follower: Follower,
    /// The events in it that were not reported yet.
    pub(super) told: Vec<Told>,
    pub(super) found: Found,
}

/// Other data that a leader needs.
pub(super) struct Found {
    /// The version of the store in which the head was last put.
    head_at: i64,
    generation: u64,
    /// The first record that still exists.
    first: Option<u64>,
}

impl SharedSeat {
    /// Tries to become leader.
    pub(super) fn campaign(&self) -> Option<(Tenure, Lease)> {
        let Options { node, address, peering, .. } = &self.options;
        let leader = LeaderValue {
            instance: self.instance.clone(),
            peer: PeerValue::of(peering.as_ref()),
            ..LeaderValue::new(node, address)
        };
        let vetoes = [Entry::Rewound, Entry::Closed];
        campaign(&*self.backend, SEAT_TTL, &leader, &vetoes).unwrap_or_else(|why| {
            tracing::warn!(%why, "cannot request leadership");
            None
        })
    }

    /// Reads everything up to the head that is current while we lead, so no earlier leader can write after it. Returns
    /// the version in which that head was put, or `None` if leadership was lost or the store does not respond. After an
    /// error the follower must not be used any more.
    pub(super) fn caught_up(
        &mut self,
        follower: &mut Follower,
        told: &mut Vec<Told>,
        tenure: &Tenure,
    ) -> Result<Option<i64>, Error> {
        let mut n_failures = 0;
        loop {
            let look = match self.reading().look(follower.place().seq + 1) {
                Ok(look) => look,
                Err(why) if n_failures >= self.backend.n_tries() => {
                    tracing::warn!(%why, "releasing leadership");
                    return Ok(None);
                }
                Err(_) => {
                    n_failures += 1;
                    continue;
                }
            };
            n_failures = 0;
            let is_ours = look.leader.as_ref().is_some_and(|leader| tenure.is(leader));
            if !is_ours || look.is_gap(follower.place()) {
                return Ok(None);
            }
            let seen = follower.received();
            match self.reading().take_in(follower, &look) {
                Ok(more) => told.extend(more),
                Err(broken) => return Err(self.broken(broken)),
            }
            if let Some(seen) = seen.filter(|_| mutant!(TimeFromOlderRecord)) {
                follower.received_before(seen);
            }
            let head = look.place(&*self.backend)?;
            if follower.place() == head {
                return Ok(Some(look.head_at()));
            }
            if look.is_without_records() {
                return Err(self.broken(cut_off(follower.place(), head)));
            }
        }
    }

    /// Reads the other data that a leader needs.
    pub(super) fn found(&self, head_at: i64) -> Result<Found, Error> {
        // Reads the id again, because another server might have upgraded the format in the meantime.
        let known = self.id.as_ref().filter(|_| mutant!(FormatNotReadAgain));
        let generation = match known {
            Some(known) => known.id.generation,
            None => self.reading().id()?.0.generation,
        };
        let first = self.reading().patiently(|| self.backend.first_record())?;
        Ok(Found { head_at, generation, first })
    }

    /// What a leader reads from the store in addition to its own entry.
    pub(super) fn watch(&self, tenure: &Tenure) -> Watch {
        let Options { node, peering, .. } = &self.options;
        let back_off = peering.is_some().then(|| self.back_off.clone());
        Watch::new(node, tenure, back_off)
    }

    pub(super) fn seated(
        &mut self,
        CaughtUp { follower, told, found }: CaughtUp,
        tenure: Tenure,
        (keeper, lease): (Keeper, Duration),
    ) -> Result<Option<Taken>, Error> {
        let Found { head_at, generation, first } = found;
        let last = follower.moment(&self.options.node, self.clock.boottime());
        let Follower { mut machine, chain, read, .. } = follower;
        machine.absorbed();
        let (epoch, seq) = (chain.epoch() + 1, chain.place().seq);
        let trimmed_through = first.map_or(seq, |seq| seq - 1);
        let desk = Desk {
            backend: self.backend.clone(),
            tenure: tenure.clone(),
            limits: self.options.limits.clone(),
            when: self.options.snapshots,
            health: self.health.clone(),
        };
        let scribe = Scribe::start(desk, seq, read)?;
        keeper.settled(chain.place());
        let loaded = Loaded {
            machine,
            last: Some(last),
            generation,
            epoch,
            is_restored: false,
            seq,
            told: told.into_iter().flat_map(Told::events).collect(),
        };
        let Options { node, address, peering, .. } = self.options.clone();
        let seat = tenure.number;
        self.leader = Some(Leader { node: node.clone(), address, peering, seat });
        let store = LeaderStore {
            backend: self.backend.clone(),
            guard: Guard { tenure, head_at },
            chain,
            epoch,
            node,
            keeper,
            lease,
            answered_at: pace::now(),
            scribe,
            trimmed_through,
            n_bytes_written: 0,
            written: last,
            progress: self.presence.as_ref().map(Presence::progress),
            health: self.health.clone(),
            sent: None,
        };
        Ok(Some((Box::new(store), loaded)))
    }
}
