//! Errors other than the refusal of a lock request. Such refusals have separate types.

use serde::{Deserialize, Serialize};

/// The body of every error answer that has no shape of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// What is wrong, in words.
    pub error: String,
    /// The kind of error, for programs.
    pub code: Code,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Whether the request may have taken effect: repeat it with the same `request_id` to find out.
    pub may_have_taken_effect: bool,
}

impl Failure {
    /// Makes an error with this code and message. The code determines whether the same request can succeed later, and
    /// whether it might have taken effect.
    pub fn new(code: Code, error: impl Into<String>) -> Self {
        let (retryable, may_have_taken_effect) =
            (code.is_retryable(), code.may_have_taken_effect());
        Self { error: error.into(), code, retryable, may_have_taken_effect }
    }
}

impl Code {
    /// Returns whether the same request can succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Code::Unknown
                | Code::Busy
                | Code::Overloaded
                | Code::JournalFull
                | Code::AuditFailed
                | Code::ShuttingDown
                | Code::Timeout
                | Code::Maintenance
                | Code::NotLeader
                | Code::LimitReached
        )
    }

    /// Returns whether the request might have taken effect.
    pub fn may_have_taken_effect(self) -> bool {
        self == Code::Unknown
    }
}

/// What kind of error it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// A field is missing, has the wrong type, is unknown or is out of bounds.
    InvalidRequest,
    /// The body is not JSON.
    InvalidJson,
    /// The Content-Type is not application/json.
    UnsupportedMediaType,
    /// The body is larger than allowed.
    BodyTooLarge,
    /// No credential was sent, or one that is not valid.
    Unauthenticated,
    /// No rule lets this principal do what the request asks.
    Forbidden,
    /// The Host header is not a name this server answers to (`--hosts`).
    HostNotAllowed,
    /// Another server leads; the header `Leasehold-Leader` says where it is, if that is known. Sent to clients that
    /// ask with `Leasehold-Direct: 1`. The request had no effect.
    NotLeader,
    /// The request comes from a web page of another origin.
    OriginNotAllowed,
    /// There is nothing at this path.
    NotFound,
    /// The method is not allowed for this path.
    MethodNotAllowed,
    /// The session does not exist or has ended.
    NoSuchSession,
    /// The request id was used for something else.
    RequestIdConflict,
    /// The request id was used for this, but its lease has ended.
    RequestIdSpent,
    /// The lock's holders or waiters use another `limit`.
    LimitDiffers,
    /// A limit of the server is reached; the error names it.
    LimitReached,
    /// Another process holds the database. The request had no effect.
    Busy,
    /// Too many requests are waiting. The request had no effect.
    Overloaded,
    /// The server's journal is as long as it may be: it cannot be folded into its tables, or the disk or the etcd it is
    /// in has hardly any space left. The request had no effect.
    JournalFull,
    /// The server's audit file cannot be written, and it was told to change nothing then. The request had no effect.
    AuditFailed,
    /// The server has no `backup-dir`, so it takes no backups.
    BackupsOff,
    /// A backup could not be taken; the server's log says why too.
    BackupFailed,
    /// The server is stopping. The request had no effect.
    ShuttingDown,
    /// The server is in maintenance: locks can be renewed and released, not acquired.
    Maintenance,
    /// The lease is not found, expired, or owned by another client.
    LeaseNotHeld,
    /// The request did not arrive in time.
    Timeout,
    /// The server cannot read what it has kept. Repeating the request does not help.
    Internal,
    /// It is not known whether the request took effect: repeat it with the same `request_id`.
    Unknown,
    /// A kind that was not yet known when this was built: a newer server sent it. This one never does.
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Other,
}
