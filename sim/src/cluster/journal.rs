//! The journal as it is written into etcd, read by somebody who takes no part: is every record in its place, what did
//! each new leader begin with, and do all who write and read it make the same of it?

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use leasehold_core::{Limits, Machine, Row, Timestamp};
use leasehold_etcd::{Request, TxnRequest};
use leasehold_store::{Chain, Hash, Kind, Witness};

use super::thread::lock;
use crate::history::{History, Outage};
use crate::store::recovery;
use crate::time::Time;

/// States older than this many records are not compared any more.
const STATES_MAX: usize = 400;

/// What was written so far.
pub(super) struct Journal {
    slots: Vec<u8>,
    chain: Chain,
    machine: Machine,
    /// When each record was first sent.
    sent: BTreeMap<[u8; 16], Time>,
    /// When the last one was first sent, so that it says what time it was then.
    last_sent_at: Time,
    pub(super) n_epochs: u64,
    /// The store was put back: from here on nobody may write.
    pub(super) is_over: bool,
    states: Arc<Mutex<States>>,
}

/// What the state was after each record, by whoever said so first.
#[derive(Default)]
struct States {
    by_seq: BTreeMap<u64, Vec<Row>>,
    n_compared: u64,
    differing: Vec<String>,
}

impl Journal {
    /// Under this prefix, which begins and ends with a slash.
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

    /// How many records there are.
    pub(super) fn seq(&self) -> u64 {
        self.chain.place().seq
    }

    /// Told by a node what it has made of the journal.
    pub(super) fn witness(&self, node: &str) -> Witness {
        let (states, node) = (self.states.clone(), node.to_owned());
        Witness::new(move |seq, machine| lock(&states).add(seq, &node, rows(machine)))
    }

    /// A transaction is sent.
    pub(super) fn sends(&mut self, txn: &TxnRequest, now: Time) {
        if let Some((_, bytes)) = self.record(txn) {
            self.sent.entry(Hash::of(bytes).0).or_insert(now);
        }
    }

    /// A transaction has done what it says.
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
        // An epoch may have several such records.
        if head.kind == Kind::Epoch && head.epoch > self.n_epochs {
            self.n_epochs = head.epoch;
            // Everything that was told before is there; and how much time passed since the last record may not be
            // known.
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

    /// How often a state was compared, and which were not the same.
    pub(super) fn compared(&self) -> (u64, Vec<String>) {
        let states = lock(&self.states);
        (states.n_compared, states.differing.clone())
    }

    /// The record a transaction puts.
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

/// What a machine knows, but for what time it is.
fn rows(machine: &Machine) -> Vec<Row> {
    let mut rows = machine.export();
    if let Some(Row::Meta { now, .. }) = rows.first_mut() {
        *now = Timestamp::ZERO;
    }
    rows
}
