//! Writes wrong proofs to the audit files where the engine cannot: the caller is not allowed to see the lease, or the
//! proof is a name. The caller does not see the results of these reads.

use leasehold_auth::Caller;
use leasehold_core::{LeaseNumber, LockKey};
use leasehold_engine::{ReadLease, ReadLock};

use super::Dialect;
use crate::app::App;

/// Records that the request named this lease, which its caller is not allowed to see.
pub(super) async fn of_lease(
    app: &App,
    caller: &Caller,
    operation: &'static str,
    (number, dialect): (LeaseNumber, Dialect),
) {
    if app.audit.is_none() {
        return;
    }
    let read = caller.audit_lease(ReadLease::new(number, dialect.number()));
    if let Ok(Some(lease)) = app.engine.ask(read).await {
        app.note_mismatch(caller, operation, (&lease.lock, lease.number));
    }
}

/// Records that the request named this lock with a proof that does not match the lease this dialect has on it.
pub(super) async fn of_lock(
    app: &App,
    caller: &Caller,
    operation: &'static str,
    (lock, dialect): (&LockKey, Dialect),
) {
    if app.audit.is_none() {
        return;
    }
    let read = caller.audit_lock(ReadLock { key: lock.clone(), n_queue_max: 0 });
    let Ok(Ok(view)) = app.engine.ask(read).await else { return };
    if let Some(lease) = view.holders.iter().find(|lease| lease.dialect == dialect.number()) {
        app.note_mismatch(caller, operation, (lock, lease.id.number));
    }
}
