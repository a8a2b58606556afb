//! Deliberate bugs of the store in etcd that take more than one line.

use leasehold_core::mutant;
use leasehold_etcd::{Op, Request, Txn, TxnRequest};

use super::EtcdBackend;
use super::guard::leading;
use crate::shared::guard::Tenure;
use crate::shared::snapshot::Manifest;

/// Returns the request that confirms a leadership, which is incorrect with some of the bugs.
pub(super) fn confirmation(txn: Txn) -> TxnRequest {
    let mut txn = txn.request();
    if mutant!(ConfirmWithoutHead) {
        txn.compare.retain(|compare| !compare.key.ends_with(b"/head"));
    }
    if mutant!(ConfirmStale) { stale(txn) } else { txn }
}

/// Returns the same transaction with reads that one member serves from its local state.
pub(super) fn stale(mut txn: TxnRequest) -> TxnRequest {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        if let Some(Request::Range(range)) = &mut op.request {
            range.serializable = true;
        }
    }
    txn
}

impl EtcdBackend {
    /// Deletes all records that are in this snapshot, including the one that the head refers to.
    pub(super) fn trim_head(&self, tenure: &Tenure, manifest: &[u8]) {
        let Ok(manifest) = serde_json::from_slice::<Manifest>(manifest) else { return };
        let keys = &self.keys;
        let (first, end) = (keys.slot(0), keys.slot(manifest.through.seq + 1));
        let _ = self.txn(leading(tenure, keys).then(Op::DeleteRange(first, end)));
    }
}
