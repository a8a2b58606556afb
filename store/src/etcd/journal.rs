//! The keys of the records and of the journal's head.

use leasehold_core::mutant;
use leasehold_etcd::{KeyValue, Op, RangeRequest, Txn, When};

use super::guard::{guarded, leader_entry, refusal};
use super::{EtcdBackend, bug, head, reading, servers};
use crate::Place;
use crate::shared::guard::{Guard, Verdict};
use crate::shared::value::{self, HeadValue};
use crate::shared::{BackendFailure, Journal, Look, Records, Write};

/// Maximum records in one read, so that the response does not exceed etcd's size limit.
const RECORDS_MAX: i64 = 32;

/// The index of each result in the response to a look.
const LEADER: usize = 0;
const HEAD: usize = 1;
const RECORDS: usize = 2;
const REWOUND: usize = 3;
const ID: usize = 4;
const CLOSED: usize = 5;
const PAUSE: usize = 6;
const DRAINS: usize = 7;

impl EtcdBackend {
    /// Returns the records under these keys.
    fn records_in(&self, found: &[KeyValue]) -> Records {
        let mut records = Records { all: Vec::with_capacity(found.len()), stray: None };
        for KeyValue { key, value, .. } in found {
            let Some(seq) = self.keys.seq_of(key) else {
                records.stray = Some(String::from_utf8_lossy(key).into_owned());
                break;
            };
            records.all.push((seq, value.clone()));
        }
        records
    }

    /// Adds a record, which is the last one from then on.
    fn put_record(&self, txn: Txn, place: Place, bytes: &[u8]) -> Txn {
        let head = value::encode(&HeadValue::of(place));
        txn.then(Op::Put(self.keys.slot(place.seq), bytes.to_vec(), 0)).then(Op::Put(
            self.keys.head(),
            head,
            0,
        ))
    }
}

impl Journal for EtcdBackend {
    fn look(&self, from: u64) -> Result<Look, BackendFailure> {
        let keys = &self.keys;
        let (first, end) = keys.slots_from(from);
        let txn = reading([keys.leader(), keys.head()])
            .then(Op::GetRange(first, end, RECORDS_MAX))
            .then(Op::Get(keys.rewound()))
            .then(Op::Get(keys.id()))
            .then(Op::Get(keys.closed()))
            .then(Op::Get(keys.pause()))
            .then(Op::GetRange(keys.drains().0, keys.drains().1, 0))
            .request();
        let answer = self.send(if mutant!(LookStale) { bug::stale(txn) } else { txn })?;
        let value = |n: usize| answer.found(n).map(|found| found.value.clone());
        Ok(Look {
            id: value(ID),
            leader: answer.found(LEADER).map(leader_entry),
            head: head(answer.found(HEAD)),
            records: self.records_in(answer.found_all(RECORDS)),
            is_rewound: answer.found(REWOUND).is_some(),
            closed: value(CLOSED),
            is_paused: answer.found(PAUSE).is_some(),
            drained: servers::drained(keys, answer.found_all(DRAINS)),
        })
    }

    fn records(&self, from: u64) -> Result<Records, BackendFailure> {
        let (key, range_end) = self.keys.slots_from(from);
        let limit = RECORDS_MAX;
        let request = RangeRequest { key, range_end, limit, ..RangeRequest::default() };
        Ok(self.records_in(&self.cluster.range(request)?.kvs))
    }

    fn first_record(&self) -> Result<Option<u64>, BackendFailure> {
        let (key, range_end) = self.keys.slots_from(0);
        let first =
            RangeRequest { key, range_end, limit: 1, keys_only: true, ..Default::default() };
        let found = self.cluster.range(first)?;
        Ok(found.kvs.first().and_then(|kv| self.keys.seq_of(&kv.key)))
    }

    fn id(&self) -> Result<Option<Vec<u8>>, BackendFailure> {
        let answer = self.txn(reading([self.keys.id()]))?;
        Ok(answer.found(0).map(|found| found.value.clone()))
    }

    fn write(&self, guard: &Guard, what: &Write<'_>) -> Result<Verdict, BackendFailure> {
        let keys = &self.keys;
        let txn = guarded(guard, keys);
        let request = match what {
            Write::Nothing => bug::confirmation(txn),
            Write::Record { place, bytes, trims } => {
                let mut txn = self.put_record(txn, *place, bytes);
                if !trims.is_empty() {
                    let (first, end) = (keys.slot(trims.start), keys.slot(trims.end));
                    txn = txn.then(Op::DeleteRange(first, end));
                }
                txn.request()
            }
            Write::Closing { place, bytes, closed } => {
                let txn = self.put_record(txn, *place, bytes);
                txn.then(Op::Put(keys.closed(), closed.to_vec(), 0)).request()
            }
            Write::Resignation => txn.then(Op::Delete(keys.leader())).request(),
        };
        let answer = self.send(request)?;
        if answer.succeeded {
            let is_put = what.place().is_some();
            return Ok(Verdict::Held(if is_put { answer.revision() } else { guard.head_at }));
        }
        Ok(guard.judge(&refusal(&answer), what.place()))
    }

    fn note_rewound(&self, value: &[u8], id: Option<&[u8]>) -> Result<(), BackendFailure> {
        let mut txn = Txn::default().when(self.keys.rewound(), When::Absent);
        if let Some(id) = id {
            txn = txn.when(self.keys.id(), When::Is(id));
        }
        self.txn(txn.then(Op::Put(self.keys.rewound(), value.to_vec(), 0))).map(drop)
    }
}
