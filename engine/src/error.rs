//! The reasons why the engine does not answer a request.

use std::fmt;

/// Why a request was not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Another process holds the database. Nothing was done.
    Busy,
    /// The queue of requests is full. Nothing was done.
    Overloaded,
    /// The journal has reached its maximum size and cannot be folded. Nothing was done.
    JournalFull,
    /// The disk of the data directory is almost full. Nothing was done.
    DiskFull,
    /// The shared store is almost full. Nothing was done.
    StoreFull,
    /// The shared store accepts no writes until an operator disarms its alarm. Nothing was done.
    StoreAlarmed,
    /// The shared store does not answer. Nothing was done.
    StoreSilent,
    /// The audit file cannot be written, so changes are refused. Nothing was done.
    AuditFailed,
    /// The server is stopping. Nothing was done.
    Stopping,
    /// Another server leads, or none does. Nothing was done.
    NotLeading,
    /// The outcome is unknown. Repeating the request with the same request id is safe.
    Unknown,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Busy => "another process holds the database; the request had no effect",
            Error::Overloaded => "too many requests are waiting (pending-max); the request had no effect",
            Error::JournalFull => {
                "the journal has reached journal-bytes-max, because it cannot be folded into the tables (see the \
                 server's log); the request had no effect. Renewals and releases continue"
            }
            Error::DiskFull => {
                "the server's disk is almost full (disk-free-min; see the server's log), so acquires are refused; the \
                 request had no effect. Renewals and releases continue"
            }
            Error::StoreFull => {
                "the store is almost full (etcd-quota; see the server's log); the request had no effect. Renewals and \
                 releases continue while there is space"
            }
            Error::StoreAlarmed => {
                "the store has the alarm NOSPACE (`leasehold cluster status` and the server's log name the members); \
                 the request had no effect. Requests are accepted again about 5 seconds after it is disarmed on every \
                 member (etcdctl alarm disarm)"
            }
            Error::StoreSilent => {
                "the store does not respond (see the server's log); the request had no effect"
            }
            Error::AuditFailed => {
                "the server cannot write the audit file (see its log), so it grants and revokes no locks \
                 (audit-failure); the request had no effect. Renewals and releases continue"
            }
            Error::Stopping => "the server is stopping; the request had no effect",
            Error::NotLeading => "this server is not the leader; the request had no effect",
            Error::Unknown => {
                "the request might have taken effect; repeat it with the same request_id"
            }
        })
    }
}

impl std::error::Error for Error {}
