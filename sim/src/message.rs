//! The messages between clients and the server: those of the native dialect, but not as text.

use leasehold_core::{LeaseId, Mode, Token};
use leasehold_server::engine::Expiry;

/// The index of a lock in the plan.
pub type Lock = usize;

/// A request.
#[derive(Clone, Debug)]
pub enum Request {
    /// Acquires a lock.
    Acquire(Acquire),
    /// Renews leases, all or none.
    Renew {
        /// The leases.
        claims: Vec<Claim>,
        /// The new remaining time, in milliseconds.
        extend_ms: u64,
        /// The request id, by which the request can be repeated.
        request_id: Option<u64>,
    },
    /// Releases leases.
    Release {
        /// The leases.
        claims: Vec<Claim>,
        /// The request id, by which the request can be repeated.
        request_id: Option<u64>,
    },
    /// Reads a lock.
    Look(Lock),
    /// Revokes the leases of a lock.
    Revoke(Lock),
    /// Opens a session that lasts this many milliseconds without a keep-alive.
    OpenSession(u64),
    /// Keeps a session alive.
    KeepSession(SessionId),
    /// Closes a session.
    CloseSession(SessionId),
}

/// The parameters of an acquire.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The lock.
    pub lock: Lock,
    /// How the lock is shared.
    pub mode: Mode,
    /// The other locks of a group and how they are shared. The client gets all locks or none.
    pub others: Vec<(Lock, Mode)>,
    /// The TTL. `None`: the lease lasts as long as its session.
    pub ttl_ms: Option<u64>,
    /// The grace period.
    pub grace_ms: u64,
    /// How long to wait for the lock.
    pub wait_ms: u64,
    /// The session that the lease belongs to.
    pub session: Option<SessionId>,
    /// The request id, by which the request can be repeated.
    pub request_id: Option<u64>,
}

/// A session: its name over HTTP, or its digest in the engine. Each client uses only one of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionId(pub [u8; 32]);

/// What a client remembers of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The lock.
    pub lock: Lock,
    /// The lease id.
    pub id: LeaseId,
    /// The fencing token.
    pub token: Token,
}

/// A response.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "each says what it means")]
pub enum Answer {
    /// Contains one claim for each requested lock.
    Granted {
        claims: Vec<Claim>,
        expiry: Option<Expiry>,
    },
    /// Lock or lease `n` of a group prevents the operation.
    Member {
        n: usize,
        why: Box<Answer>,
    },
    /// Whether each lease of a group was released.
    ReleasedEach(Vec<bool>),
    /// Another client holds the lock. Contains the holder, if it is known.
    Held(Option<usize>),
    InGrace(usize),
    WaitOver,
    /// The request id belongs to a lease that has ended.
    Spent,
    Renewed {
        expiry: Option<Expiry>,
    },
    Released,
    /// The lease has ended.
    Over,
    /// The lease belongs to another client, or is not remembered any more.
    NotYours,
    Seen(Seen),
    Revoked,
    SessionOpened {
        session: SessionId,
        expiry: Expiry,
    },
    SessionKept {
        expiry: Expiry,
    },
    SessionClosed,
    NoSession,
    /// Another process has locked the database. Nothing was done.
    Busy,
    /// Too many requests are waiting. Nothing was done.
    Overloaded,
    /// The server is stopping. Nothing was done.
    Stopping,
    /// The outcome is unknown.
    Unknown,
    /// Any rejection that the simulated clients never cause.
    Refused(String),
}

/// The state of a lock, as read by a client.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Its last token.
    pub last_token: Token,
    /// The holders and their tokens.
    pub holders: Vec<(usize, Token)>,
    /// The number of waiters.
    pub n_waiting: usize,
}

impl Acquire {
    /// Returns all requested locks and their modes.
    pub fn each(&self) -> impl Iterator<Item = (Lock, Mode)> {
        std::iter::once((self.lock, self.mode)).chain(self.others.iter().copied())
    }

    /// Returns whether this lock is requested.
    pub fn asks_for(&self, lock: Lock) -> bool {
        self.each().any(|(asked, _)| asked == lock)
    }
}

impl Request {
    /// Returns the request id.
    pub fn request_id(&self) -> Option<u64> {
        match self {
            Request::Acquire(Acquire { request_id, .. })
            | Request::Renew { request_id, .. }
            | Request::Release { request_id, .. } => *request_id,
            _ => None,
        }
    }

    /// Returns how long the client wants to wait for the response, in milliseconds.
    pub fn wait_ms(&self) -> u64 {
        if let Request::Acquire(acquire) = self { acquire.wait_ms } else { 0 }
    }
}
