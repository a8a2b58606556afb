//! Sends the same random requests to the simulated etcd and to a real one, and compares all responses.

use std::time::Duration;

use leasehold_etcd::{Error, Kind, Options, RangeRequest, Response, TxnRequest, TxnResponse};
use leasehold_etcd::{Op, Txn, When};
use leasehold_store::etcd::{Cluster, Remote};
use leasehold_testkit::Etcd;
use sim::chance::Chance;
use sim::etcd::{Client, Local};

const KEYS: [&str; 6] = ["a", "b", "b/1", "b/2", "b0", "c"];
const ENDS: [&[u8]; 4] = [b"", b"b0", b"z", &[0]];
const N_STEPS: usize = 1000;

struct Both {
    chance: Chance,
    real: Remote,
    simulated: Client<Local>,
    /// The leases granted by both, in pairs of ids.
    leases: Vec<(i64, i64)>,
}

impl Both {
    fn step(&mut self) {
        match self.chance.below(20) {
            0 => {
                let ttl = self.chance.pick(&[60, 100]);
                let real = self.real.lease_grant(ttl).expect("a lease");
                let simulated = self.simulated.lease_grant(ttl).expect("a lease");
                assert_eq!(real.ttl, simulated.ttl);
                self.leases.push((real.id, simulated.id));
            }
            1 => {
                let Some((real, simulated)) = self.lease() else { return };
                let kept = self.real.lease_keep_alive(real).map_err(|error| error.kind);
                let same = self.simulated.lease_keep_alive(simulated).map_err(|error| error.kind);
                assert_eq!(kept, same);
            }
            2 => {
                let Some((real, simulated)) = self.lease() else { return };
                let ended = self.real.lease_revoke(real).map_err(|error| error.kind);
                let same = self.simulated.lease_revoke(simulated).map_err(|error| error.kind);
                assert_eq!(ended, same);
            }
            3 => {
                let revision = self.revision();
                let compacted = self.real.compact(revision).map_err(|error| error.kind);
                let same = self.simulated.compact(revision).map_err(|error| error.kind);
                assert_eq!(compacted, same, "{revision}");
            }
            4..9 => self.range(),
            _ => self.txn(),
        }
    }

    fn lease(&mut self) -> Option<(i64, i64)> {
        (!self.leases.is_empty()).then(|| self.chance.pick(&self.leases))
    }

    /// Draws a past, current or future revision.
    fn revision(&mut self) -> i64 {
        let latest = self.simulated.0.lock().0.revision();
        (latest - 8 + self.chance.below(12) as i64).max(1)
    }

    fn range(&mut self) {
        let request = RangeRequest {
            key: self.chance.pick(&KEYS).into(),
            range_end: self.chance.pick(&ENDS).into(),
            limit: self.chance.pick(&[0, 0, 1, 3]),
            revision: if self.chance.permille(300) { self.revision() } else { 0 },
            serializable: false,
            keys_only: self.chance.permille(200),
            count_only: self.chance.permille(200),
        };
        let real = self.real.range(request.clone()).map_err(|error| error.kind);
        let simulated = self.simulated.range(request.clone()).map_err(|error| error.kind);
        let plain = |mut range: leasehold_etcd::RangeResponse, leases: &[(i64, i64)]| {
            range.header = range.header.map(|header| leasehold_etcd::Header {
                cluster_id: 0,
                member_id: 0,
                ..header
            });
            for kv in &mut range.kvs {
                kv.lease = same_lease(kv.lease, leases);
            }
            range
        };
        let leases = &self.leases;
        let real = real.map(|range| plain(range, leases));
        let simulated = simulated.map(|range| plain(range, leases));
        assert_eq!(real, simulated, "{request:?}");
    }

    fn op(&mut self, lease: i64) -> Op {
        let key = self.chance.pick(&KEYS);
        match self.chance.below(10) {
            0..2 => Op::Get(key.into()),
            2 => Op::GetRange(key.into(), self.chance.pick(&ENDS).into(), 2),
            3 => Op::Delete(key.into()),
            4 => Op::DeleteRange(key.into(), self.chance.pick(&ENDS).into()),
            _ => Op::Put(key.into(), vec![b'0' + self.chance.below(4) as u8], lease),
        }
    }

    fn txn(&mut self) {
        // Some of these leases have ended.
        let lease = if self.chance.permille(300) { self.lease() } else { None };
        let lease = lease.unwrap_or((0, 0));
        let (mut real, mut simulated) = (Txn::default(), Txn::default());
        for _ in 0..self.chance.below(3) {
            let (key, seed) = (self.chance.pick(&KEYS), self.chance.draw());
            let revision = self.revision();
            let when = || match seed % 4 {
                0 => When::Absent,
                1 => When::CreatedAt(revision),
                2 => When::PutAt(revision),
                _ => When::Is(b"1"),
            };
            (real, simulated) = (real.when(key, when()), simulated.when(key, when()));
        }
        for _ in 0..=self.chance.below(3) {
            let chance = self.chance.clone();
            let to_real = self.op(lease.0);
            self.chance = chance;
            let to_simulated = self.op(lease.1);
            if self.chance.permille(600) {
                (real, simulated) = (real.then(to_real), simulated.then(to_simulated));
            } else {
                (real, simulated) = (real.or_else(to_real), simulated.or_else(to_simulated));
            }
        }
        let (real, simulated) = (real.request(), simulated.request());
        let said = self.real.txn(real.clone());
        let same = self.simulated.txn(simulated);
        assert_eq!(self.plain(said), self.plain(same), "{}", words(&real));
    }

    /// Returns a response without the values that differ between any two clusters.
    fn plain(&self, answer: Result<TxnResponse, Error>) -> Result<TxnResponse, Kind> {
        let mut answer = answer.map_err(|error| error.kind)?;
        answer.header = answer.header.map(|header| leasehold_etcd::Header {
            cluster_id: 0,
            member_id: 0,
            ..header
        });
        for response in &mut answer.responses {
            match &mut response.response {
                Some(Response::Range(range)) => {
                    range.header = None;
                    for kv in &mut range.kvs {
                        kv.lease = same_lease(kv.lease, &self.leases);
                    }
                }
                Some(Response::Put(put)) => put.header = None,
                Some(Response::DeleteRange(range)) => range.header = None,
                None => {}
            }
        }
        Ok(answer)
    }
}

/// Returns the id of the simulated lease for the id of either lease.
fn same_lease(id: i64, leases: &[(i64, i64)]) -> i64 {
    leases.iter().find(|(real, _)| *real == id).map_or(id, |(_, simulated)| *simulated)
}

fn words(txn: &TxnRequest) -> String {
    format!("{:?} then {:?} else {:?}", txn.compare, txn.success, txn.failure)
}

#[test]
fn a_real_one_says_the_same() {
    let etcd = Etcd::start();
    let options = Options { try_max: Duration::from_secs(20), ..Options::new(etcd.addresses()) };
    let real = Remote::connect(options, Vec::new()).expect("good options");
    let simulated = Client(Local::default());
    let mut both = Both { chance: Chance::new(7), real, simulated, leases: Vec::new() };
    for _ in 0..N_STEPS {
        both.step();
    }
    assert!(both.simulated.0.lock().0.revision() > 100, "too little has happened");
}
