//! Takes over: first creates the leader key, then reads everything written before that.

use std::time::Duration;

use leasehold_base::pace;
use leasehold_core::mutant;
use leasehold_etcd::RangeRequest;

use super::{EtcdSeat, Options, SEAT_TTL};
use crate::etcd::campaign::campaign;
use crate::etcd::follower::Follower;
use crate::etcd::guard::{Guard, Tenure};
use crate::etcd::keeper::{Keeper, Lease};
use crate::etcd::presence::Presence;
use crate::etcd::reading::cut_off;
use crate::etcd::scribe::{Desk, Scribe};
use crate::etcd::store::EtcdStore;
use crate::etcd::value::{LeaderValue, PeerValue};
use crate::etcd::watch::Watch;
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
    /// The revision in which the head was last put.
    head_at: i64,
    generation: u64,
    /// The first record that still exists.
    first: Option<u64>,
}

impl EtcdSeat {
    /// Returns the first record that still exists.
    fn first_slot(&self) -> Result<Option<u64>, String> {
        let (key, range_end) = self.keys.slots_from(0);
        let first =
            RangeRequest { key, range_end, limit: 1, keys_only: true, ..Default::default() };
        let found = self.cluster.range(first).map_err(|error| error.to_string())?;
        Ok(found.kvs.first().and_then(|kv| self.keys.seq_of(&kv.key)))
    }

    /// Tries to become leader. Returns the revision and value of the leader key, and its lease.
    pub(super) fn campaign(&self) -> Option<(Tenure, Lease)> {
        let Options { node, address, peering, .. } = &self.options;
        let leader = LeaderValue {
            instance: self.instance.clone(),
            peer: PeerValue::of(peering.as_ref()),
            ..LeaderValue::new(node, address)
        };
        let nobody_may = [self.keys.rewound(), self.keys.closed()];
        campaign(&*self.cluster, &self.keys, SEAT_TTL, &leader, &nobody_may).unwrap_or_else(|why| {
            tracing::warn!(%why, "cannot request leadership");
            None
        })
    }

    /// Reads everything up to the head that is current while the leader key is ours, so no earlier leader can write
    /// after it. Returns the revision in which that head was put, or `None` if leadership was lost or etcd does not
    /// respond. After an error the follower must not be used any more.
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
                Err(why) if n_failures >= self.cluster.n_members() => {
                    tracing::warn!(%why, "releasing leadership");
                    return Ok(None);
                }
                Err(_) => {
                    n_failures += 1;
                    continue;
                }
            };
            n_failures = 0;
            let is_ours = look.leader().is_some_and(|leader| tenure.is(leader));
            if !is_ours || look.is_gap(&self.keys, follower.place()) {
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
            let head = look.head(&self.keys)?;
            if follower.place() == head {
                return Ok(Some(look.head_at()));
            }
            if look.slots().is_empty() {
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
        let first = self.reading().patiently(|| self.first_slot())?;
        Ok(Found { head_at, generation, first })
    }

    /// What a leader reads from etcd in addition to its seat.
    pub(super) fn watch(&self, tenure: &Tenure) -> Watch {
        let Options { node, peering, .. } = &self.options;
        let back_off = peering.is_some().then(|| self.back_off.clone());
        Watch::new(self.keys.clone(), node, tenure, back_off)
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
            cluster: self.cluster.clone(),
            keys: self.keys.clone(),
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
        let seat = tenure.created_at;
        self.leader = Some(Leader { node: node.clone(), address, peering, seat });
        let store = EtcdStore {
            cluster: self.cluster.clone(),
            guard: Guard { keys: self.keys.clone(), tenure, head_at },
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
