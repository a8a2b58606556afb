//! The reasons why the engine does not answer a request.

use std::fmt;

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Another process holds the database. Nothing was done.
    Busy,
    /// Too many requests wait already. Nothing was done.
    Overloaded,
    /// The journal is as long as it may be and cannot be folded. Nothing was done.
    JournalFull,
    /// The disk of the data directory has hardly any space left. Nothing was done.
    DiskFull,
    /// The store that several servers share has hardly any room left. Nothing was done.
    StoreFull,
    /// The shared store accepts no writes until an operator disarms its alarm. Nothing was done.
    StoreAlarmed,
    /// The store that several servers share does not answer. Nothing was done.
    StoreSilent,
    /// The audit file cannot be written, and nothing is to change then. Nothing was done.
    AuditFailed,
    /// The server is stopping. Nothing was done.
    Stopping,
    /// Another server writes the journal, or nobody does. Nothing was done.
    NotLeading,
    /// It is not known whether it was done: repeat it with the same request id.
    Unknown,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Busy => "another process holds the database; the request had no effect",
            Error::Overloaded => "too many requests are waiting (pending-max); the request had no effect",
            Error::JournalFull => {
                "the journal has reached journal-bytes-max, because it cannot be folded into the tables (see the \
                 server's log); the request had no effect. Renewals and releases go on"
            }
            Error::DiskFull => {
                "the server's disk is almost full (disk-free-min; see the server's log), so acquires are refused; the \
                 request had no effect. Renewals and releases continue"
            }
            Error::StoreFull => {
                "the store has hardly any room left (etcd-quota; see the server's log); the request had no effect. \
                 Renewals and releases go on as long as there is any"
            }
            Error::StoreAlarmed => {
                "the store has the alarm NOSPACE (`leasehold cluster status` and the server's log name the members); \
                 the request had no effect. Requests are accepted again about 5 seconds after it is disarmed on every \
                 member (etcdctl alarm disarm)"
            }
            Error::StoreSilent => {
                "the store does not answer (see the server's log); the request had no effect"
            }
            Error::AuditFailed => {
                "the audit file cannot be written (see the server's log), so nothing is granted or taken away \
                 (audit-failure); the request had no effect. Renewals and releases go on"
            }
            Error::Stopping => "the server is stopping; the request had no effect",
            Error::NotLeading => "this server does not lead at present; the request had no effect",
            Error::Unknown => {
                "it is not known whether the request took effect; repeat it with the same request_id"
            }
        })
    }
}

impl std::error::Error for Error {}
