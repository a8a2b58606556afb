//! What clients and the server say to each other. As on the wire of the native dialect, but not as text.

use leasehold_core::{LeaseId, Mode, Token};
use leasehold_engine::Expiry;

/// Which lock, by its place in the plan.
pub type Lock = usize;

/// A question.
#[derive(Clone, Debug)]
pub enum Request {
    /// Take a lock.
    Acquire(Acquire),
    /// Keep it for longer, or several: all or none.
    Renew {
        /// Which leases.
        claims: Vec<Claim>,
        /// From now, in milliseconds.
        extend_ms: u64,
        /// To be repeated by.
        request_id: Option<u64>,
    },
    /// Give it back, or several.
    Release {
        /// Which leases.
        claims: Vec<Claim>,
        /// To be repeated by.
        request_id: Option<u64>,
    },
    /// Who has it?
    Look(Lock),
    /// Take it from whoever has it.
    Revoke(Lock),
    /// Begin a session that lasts this many milliseconds without a word.
    OpenSession(u64),
    /// A word.
    KeepSession(SessionId),
    /// End it.
    CloseSession(SessionId),
}

/// Take a lock.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Which.
    pub lock: Lock,
    /// With whom it is shared.
    pub mode: Mode,
    /// Which others together with it, all or none, and with whom they are shared.
    pub others: Vec<(Lock, Mode)>,
    /// For how long; `None`: as long as its session.
    pub ttl_ms: Option<u64>,
    /// How long it stays reserved after that.
    pub grace_ms: u64,
    /// How long to wait for it.
    pub wait_ms: u64,
    /// With which session it ends.
    pub session: Option<SessionId>,
    /// To be repeated by.
    pub request_id: Option<u64>,
}

/// A session: its name at the door, its digest past the door. Each client stays on its side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionId(pub [u8; 32]);

/// What a client keeps of a lease it was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Of this lock.
    pub lock: Lock,
    /// Its id.
    pub id: LeaseId,
    /// Its fencing token.
    pub token: Token,
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "each says what it means")]
pub enum Answer {
    /// One claim for each lock that was asked for.
    Granted {
        claims: Vec<Claim>,
        expiry: Option<Expiry>,
    },
    /// Of several, this one is in the way.
    Member {
        n: usize,
        why: Box<Answer>,
    },
    /// Of several, which were given back.
    ReleasedEach(Vec<bool>),
    /// Somebody else has it; who, if that can be said.
    Held(Option<usize>),
    InGrace(usize),
    WaitOver,
    /// The request id belongs to a lease that is over.
    Spent,
    Renewed {
        expiry: Option<Expiry>,
    },
    Released,
    /// The lease is over.
    Over,
    /// The lease is somebody else's, or not known any more.
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
    /// Another process holds the database; nothing was done.
    Busy,
    /// Too many wait; nothing was done.
    Overloaded,
    /// The server ends; nothing was done.
    Stopping,
    /// Nobody knows.
    Unknown,
    /// Anything a client of this world does not ask for.
    Refused(String),
}

/// A lock, looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Its last token.
    pub last_token: Token,
    /// Who has it, with which token.
    pub holders: Vec<(usize, Token)>,
    /// How many wait.
    pub n_waiting: usize,
}

impl Acquire {
    /// What is asked for, lock by lock.
    pub fn each(&self) -> impl Iterator<Item = (Lock, Mode)> {
        std::iter::once((self.lock, self.mode)).chain(self.others.iter().copied())
    }

    /// Is this lock asked for?
    pub fn asks_for(&self, lock: Lock) -> bool {
        self.each().any(|(asked, _)| asked == lock)
    }
}

impl Request {
    /// The id it is repeated by.
    pub fn request_id(&self) -> Option<u64> {
        match self {
            Request::Acquire(Acquire { request_id, .. })
            | Request::Renew { request_id, .. }
            | Request::Release { request_id, .. } => *request_id,
            _ => None,
        }
    }

    /// How long its answer may take by its own wish, in milliseconds.
    pub fn wait_ms(&self) -> u64 {
        if let Request::Acquire(acquire) = self { acquire.wait_ms } else { 0 }
    }
}
