//! Errors that are not the answer to a question about a lock.

use serde::{Deserialize, Serialize};

/// The body of every error answer that has no shape of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// In words: what was wrong.
    pub error: String,
    /// For programs.
    pub code: Code,
    /// The same request may succeed later.
    pub retryable: bool,
    /// It may have had its effect all the same: repeat it with the same `request_id` to find out.
    pub may_have_taken_effect: bool,
}

impl Failure {
    /// An error of this kind, described in words.
    pub fn new(code: Code, error: impl Into<String>) -> Self {
        let (retryable, may_have_taken_effect) = match code {
            Code::Unknown => (true, true),
            Code::Busy
            | Code::Overloaded
            | Code::JournalFull
            | Code::ShuttingDown
            | Code::Timeout
            | Code::Maintenance
            | Code::LimitReached => (true, false),
            _ => (false, false),
        };
        Self { error: error.into(), code, retryable, may_have_taken_effect }
    }
}

/// What kind of error it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The request makes no sense: a field is missing, ill-typed, unknown or out of bounds.
    InvalidRequest,
    /// The body is not JSON.
    InvalidJson,
    /// The body is said to be something else than JSON.
    UnsupportedMediaType,
    /// The body is larger than allowed.
    BodyTooLarge,
    /// There is nothing at this path.
    NotFound,
    /// There is something at this path, but not by this method.
    MethodNotAllowed,
    /// No such session, or none any more.
    NoSuchSession,
    /// The request id was used for something else.
    RequestIdConflict,
    /// The request id was used for this, but its lease has ended.
    RequestIdSpent,
    /// Holders and waiters of this lock agreed on another `limit`.
    LimitDiffers,
    /// A bound on how much one owner or the server may hold was met.
    LimitReached,
    /// Another process holds the database; nothing was done.
    Busy,
    /// Too much to do already; nothing was done.
    Overloaded,
    /// The server's journal is as long as it may be: it cannot be folded into its tables. Nothing was done.
    JournalFull,
    /// The server has no `backup-dir`, so it takes no backups.
    BackupsOff,
    /// A backup could not be taken; the server's log says why too.
    BackupFailed,
    /// The server is stopping; nothing was done.
    ShuttingDown,
    /// The server is in maintenance: locks can be renewed and released, not acquired.
    Maintenance,
    /// The lease is not found, expired, or owned by another client.
    LeaseNotHeld,
    /// The request did not arrive in time.
    Timeout,
    /// The server cannot read what it has kept. Repeating the request does not help.
    Internal,
    /// It is not known whether it was done: repeat it with the same `request_id`.
    Unknown,
    /// A kind that was not yet known when this was built: a newer server sent it. This one never does.
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Other,
}
