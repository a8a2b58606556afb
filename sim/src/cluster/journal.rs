//! Reads the journal in etcd as an outside observer, to check that every record is in its place, which state each new
//! leader starts with, and that all nodes derive the same states from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use leasehold_core::{Limits, Machine, Row, Timestamp};
use leasehold_etcd::{Request, TxnRequest};
use leasehold_store::{Chain, Hash, Kind, Witness};

use super::thread::lock;
use crate::history::{History, Outage};
use crate::store::recovery;
use crate::time::Time;

/// Maximum states that are kept for comparison.
const STATES_MAX: usize = 400;

/// The journal written so far.
pub(super) struct Journal {
    slots: Vec<u8>,
    chain: Chain,
    machine: Machine,
    /// When each record was first sent.
    sent: BTreeMap<[u8; 16], Time>,
    /// When the last record was first sent, because its moment dates from that time.
    last_sent_at: Time,
    pub(super) n_epochs: u64,
    /// Whether etcd was rolled back. From then on, no node may write.
    pub(super) is_over: bool,
    states: Arc<Mutex<States>>,
}

/// The state after each record, as derived by the first node that reported it.
#[derive(Default)]
struct States {
    by_seq: BTreeMap<u64, Vec<Row>>,
    n_compared: u64,
    differing: Vec<String>,
}

impl Journal {
    /// Creates the observer for a prefix, which starts and ends with a slash.
    pub(super) fn new(prefix: &str, limits: Limits) -> Self {
        Self {
            slots: format!("{prefix}j/").into(),
            chain: Chain::default(),
            machine: Machine::new(limits, 7),
            sent: BTreeMap::new(),
            last_sent_at: 0,
            n_epochs: 0,
            is_over: false,
            states: Arc::default(),
        }
    }

    /// Returns the number of records.
    pub(super) fn seq(&self) -> u64 {
        self.chain.place().seq
    }

    /// Returns a witness through which a node reports the states it derives from the journal.
    pub(super) fn witness(&self, node: &str) -> Witness {
        let (states, node) = (self.states.clone(), node.to_owned());
        Witness::new(move |seq, machine| lock(&states).add(seq, &node, rows(machine)))
    }

    /// Records that a transaction is sent.
    pub(super) fn sends(&mut self, txn: &TxnRequest, now: Time) {
        if let Some((_, bytes)) = self.record(txn) {
            self.sent.entry(Hash::of(bytes).0).or_insert(now);
        }
    }

    /// Records that a transaction took effect.
    pub(super) fn done(&mut self, txn: &TxnRequest, now: Time, history: &mut History) {
        let Some((seq, bytes)) = self.record(txn) else { return };
        let bytes = bytes.to_vec();
        if self.is_over {
            let why = format!("record {seq} is written though the store was put back");
            return history.refusals.push((now, why));
        }
        let record = match self.chain.read(seq, &bytes) {
            Ok(record) => record,
            Err(broken) => return history.unseen.push((now, broken.to_string())),
        };
        let head = record.head.unwrap_or_default();
        // An epoch can have several such records.
        if head.kind == Kind::Epoch && head.epoch > self.n_epochs {
            self.n_epochs = head.epoch;
            // All acknowledged changes are in the journal, and the time since the last record might be unknown to the
            // new leader.
            history.outages.push(Outage { from: now, to: now, is_frozen: false });
            history.outages.push(Outage { from: self.last_sent_at, to: now, is_frozen: true });
            history.recoveries.push((now, recovery(&self.machine, false)));
        }
        if let Err(error) = self.machine.absorb(record.moment.lock_time, &record.changes) {
            return history.unseen.push((now, format!("record {seq}: {error}")));
        }
        self.last_sent_at = self.sent.get(&Hash::of(&bytes).0).copied().unwrap_or(now);
        lock(&self.states).add(seq, "the journal", rows(&self.machine));
    }

    /// Returns how many states were compared, and the differences.
    pub(super) fn compared(&self) -> (u64, Vec<String>) {
        let states = lock(&self.states);
        (states.n_compared, states.differing.clone())
    }

    /// Returns the record that a transaction writes.
    fn record<'a>(&self, txn: &'a TxnRequest) -> Option<(u64, &'a [u8])> {
        txn.success.iter().find_map(|op| match &op.request {
            Some(Request::Put(put)) => {
                let name = std::str::from_utf8(put.key.strip_prefix(&self.slots[..])?).ok()?;
                Some((u64::from_str_radix(name, 16).ok()?, &put.value[..]))
            }
            _ => None,
        })
    }
}

impl States {
    fn add(&mut self, seq: u64, who: &str, rows: Vec<Row>) {
        let Some(known) = self.by_seq.get(&seq) else {
            self.by_seq.insert(seq, rows);
            if self.by_seq.len() > STATES_MAX {
                self.by_seq.pop_first();
            }
            return;
        };
        self.n_compared += 1;
        if *known != rows {
            let pairs = known.iter().zip(&rows);
            let first = pairs.into_iter().find(|(known, row)| known != row);
            let n_rows = (known.len(), rows.len());
            self.differing.push(format!("{who} has another state at {seq}: {n_rows:?}, {first:?}"));
        }
    }
}

/// Returns the state of a machine without its current time.
fn rows(machine: &Machine) -> Vec<Row> {
    let mut rows = machine.export();
    if let Some(Row::Meta { now, .. }) = rows.first_mut() {
        *now = Timestamp::ZERO;
    }
    rows
}
