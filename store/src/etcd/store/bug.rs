//! Deliberate bugs of the etcd store that take more than one line.

use leasehold_core::mutant;
use leasehold_etcd::{Op, Request, Txn, TxnRequest};

use super::{EtcdStore, Sent};
use crate::Error;
use crate::etcd::value::{self, HeadValue};

/// Makes a confirmation incorrect. Returns whether to skip the confirmation altogether.
pub(super) fn spoil(txn: &mut TxnRequest) -> bool {
    if mutant!(ConfirmWithoutHead) {
        txn.compare.retain(|compare| !compare.key.ends_with(b"/head"));
    }
    if mutant!(ConfirmStale) {
        spoil_reads(txn);
    }
    mutant!(ConfirmSkipped)
}

/// Returns the same transaction with reads that one member serves from its local state.
pub(in crate::etcd) fn stale(mut txn: TxnRequest) -> TxnRequest {
    spoil_reads(&mut txn);
    txn
}

fn spoil_reads(txn: &mut TxnRequest) {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        if let Some(Request::Range(range)) = &mut op.request {
            range.serializable = true;
        }
    }
}

impl EtcdStore {
    /// Treats a record that is not there now as not written, as if no earlier attempt could still be pending.
    pub(super) fn settle_by_reading(&mut self) -> Result<(), Error> {
        let Some(sent) = self.sent.take() else { return Ok(()) };
        let txn = Txn::default().then(Op::Get(self.keys().head())).request();
        let Ok(answer) = self.cluster.txn(txn) else {
            self.sent = Some(sent);
            return Err(Error::Unsettled("it cannot be read".into()));
        };
        let Sent { bytes, place, .. } = &sent;
        let head =
            answer.found(0).filter(|head| head.value == value::encode(&HeadValue::of(*place)));
        let Some(head) = head else { return Err(Error::Busy) };
        self.guard.head_at = head.mod_revision;
        self.chain.wrote(self.epoch, bytes);
        self.keeper.settled(self.chain.place());
        Ok(())
    }
}
