//! Reads that are permitted without a check of rights, each for one purpose.

use super::need::{Exempt, purpose};
use super::{Caller, Permitted};

impl Caller {
    /// Permits reading a session by its secret, for a dialect in which the session id is the credential.
    pub fn look_up<A: Exempt<purpose::Secret>>(&self, read: A) -> Permitted<A> {
        Permitted::new(read)
    }

    /// Permits reading a directory without a check, for a handler that only tests whether it exists.
    pub fn find_folder<A: Exempt<purpose::Existence>>(&self, folder: A) -> Permitted<A> {
        Permitted::new(folder)
    }

    /// Permits reading a lock without a check, for a handler that only searches it for the caller's own lease.
    pub fn find_own<A: Exempt<purpose::OwnLease>>(&self, read: A) -> Permitted<A> {
        Permitted::new(read)
    }

    /// Permits reading a lock without a check, for a record in the audit file. The client does not see the result.
    pub fn audit_lock<A: Exempt<purpose::AuditRecord>>(&self, read: A) -> Permitted<A> {
        Permitted::new(read)
    }

    /// Permits reading several locks for the audit files.
    pub fn audit_locks<A: Exempt<purpose::AuditRecord>>(&self, read: A) -> Permitted<A> {
        Permitted::new(read)
    }

    /// Permits reading a lease without a check, for a record in the audit file.
    pub fn audit_lease<A: Exempt<purpose::AuditRecord>>(&self, read: A) -> Permitted<A> {
        Permitted::new(read)
    }
}
