//! Taking the seat: first the key, then everything that was written before it was ours.

use leasehold_etcd::{Op, RangeRequest, Txn, When};

use super::{EtcdSeat, HEAD, LEADER, Options, SEAT_TTL};
use crate::store::etcd::follower::{Follower, events};
use crate::store::etcd::guard::{Guard, Tenure};
use crate::store::etcd::keeper::{Keeper, Lease};
use crate::store::etcd::presence::Presence;
use crate::store::etcd::scribe::{Desk, Scribe};
use crate::store::etcd::store::EtcdStore;
use crate::store::etcd::value::{self, FORMAT, LeaderValue, PeerValue, hex};
use crate::store::{Error, Leader, Loaded, Taken, Told};

/// Everything that was written before the seat was ours.
pub(super) struct CaughtUp {
    follower: Follower,
    /// What it says happened that nobody was told of yet.
    told: Vec<Told>,
    /// The revision in which the head was last put.
    head_at: i64,
}

impl EtcdSeat {
    /// The first record that is still there.
    fn first_slot(&self) -> Result<Option<u64>, String> {
        let (key, range_end) = self.keys.slots_from(0);
        let first =
            RangeRequest { key, range_end, limit: 1, keys_only: true, ..Default::default() };
        let found = self.cluster.range(first).map_err(|error| error.to_string())?;
        Ok(found.kvs.first().and_then(|kv| self.keys.seq_of(&kv.key)))
    }

    /// Tries to get the seat; the revision and the value of its key, and the lease it goes with.
    pub(super) fn campaign(&self) -> Option<(Tenure, Lease)> {
        let granted = match self.cluster.lease_grant(SEAT_TTL) {
            Ok(granted) => granted,
            Err(error) => {
                tracing::warn!(%error, "cannot ask for the seat");
                return None;
            }
        };
        let lease = Lease { id: granted.id, ttl: granted.ttl };
        let nonce: [u8; 16] = crate::random::bytes();
        let value = value::encode(&LeaderValue {
            nonce: hex(&nonce),
            node: self.options.node.clone().into(),
            instance: self.instance.clone(),
            address: self.options.address.clone().into(),
            peer: PeerValue::of(self.options.peering.as_ref()),
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").into(),
        });
        let key = self.keys.leader();
        let txn = Txn::default()
            .when(key.clone(), When::Absent)
            .when(self.keys.rewound(), When::Absent)
            .then(Op::Put(key.clone(), value.clone(), lease.id))
            .or_else(Op::Get(key))
            .request();
        for _ in 0..=self.cluster.n_members() {
            let Ok(answer) = self.cluster.txn(txn.clone()) else { continue };
            if answer.succeeded {
                return Some((Tenure { created_at: answer.revision(), value }, lease));
            }
            // An earlier try may have done it.
            let ours = answer.found(0).filter(|found| found.value == value);
            if let Some(created_at) = ours.map(|ours| ours.create_revision) {
                return Some((Tenure { created_at, value }, lease));
            }
            break;
        }
        let _ = self.cluster.lease_revoke(lease.id);
        None
    }

    /// Reads what was written until nobody else could write any more: everything up to the head as it is while the
    /// seat is ours. `None`: it is not ours any more, or etcd does not answer.
    pub(super) fn caught_up(
        &mut self,
        mut follower: Follower,
        tenure: &Tenure,
    ) -> Result<Option<CaughtUp>, Error> {
        let (mut told, mut n_failures) = (Vec::new(), 0);
        loop {
            let look = match self.look(follower.place().seq + 1) {
                Ok(look) => look,
                Err(why) if n_failures >= self.cluster.n_members() => {
                    tracing::warn!(%why, "the seat is given back");
                    return Ok(None);
                }
                Err(_) => {
                    n_failures += 1;
                    continue;
                }
            };
            n_failures = 0;
            let is_ours = look.answer.found(LEADER).is_some_and(|leader| tenure.is(leader));
            if !is_ours || look.is_gap(&self.keys, follower.place()) {
                return Ok(None);
            }
            match self.take_in(&mut follower, &look) {
                Ok(more) => told.extend(more),
                Err(why) => return Err(self.put_back(why)),
            }
            let head = look.head(&self.keys)?;
            if follower.place() == head {
                let head_at = look.answer.found(HEAD).map_or(0, |found| found.mod_revision);
                return Ok(Some(CaughtUp { follower, told, head_at }));
            }
            if look.slots().is_empty() {
                let why = format!(
                    "its journal ends at {}, and not at {}",
                    head.seq,
                    follower.place().seq
                );
                return Err(self.put_back(why));
            }
        }
    }

    pub(super) fn seated(
        &mut self,
        CaughtUp { follower, told, head_at }: CaughtUp,
        tenure: Tenure,
        keeper: Keeper,
    ) -> Result<Option<Taken>, Error> {
        // Others may have made it newer meanwhile.
        let id = self.read_id()?;
        let last = follower.moment(&self.options.node, self.clock.boottime());
        let Follower { mut machine, chain, n_bytes, .. } = follower;
        machine.absorbed();
        let (epoch, seq) = (chain.epoch() + 1, chain.place().seq);
        let trimmed_through = self.patiently(|seat| seat.first_slot())?.map_or(seq, |seq| seq - 1);
        let desk = Desk {
            cluster: self.cluster.clone(),
            keys: self.keys.clone(),
            tenure: tenure.clone(),
            limits: self.options.limits.clone(),
            when: self.options.snapshots,
        };
        let scribe = Scribe::start(desk, seq, n_bytes)?;
        keeper.settled(chain.place());
        let loaded = Loaded {
            machine,
            last: Some(last),
            generation: id.generation,
            epoch,
            is_restored: false,
            seq,
            told: events(told).collect(),
        };
        let Options { node, address, peering, .. } = self.options.clone();
        self.leader = Some(Leader { node: node.clone(), address, peering });
        let store = EtcdStore {
            cluster: self.cluster.clone(),
            guard: Guard { keys: self.keys.clone(), tenure, head_at },
            chain,
            epoch,
            node,
            keeper,
            scribe,
            trimmed_through,
            n_bytes_written: 0,
            progress: self.presence.as_ref().map(Presence::progress),
            sent: None,
        };
        Ok(Some((Box::new(store), loaded)))
    }
}
