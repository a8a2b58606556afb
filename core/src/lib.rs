//! The lock server as a pure state machine.
//!
//! [`Machine::apply`] takes a command and the time. It returns data: the outcome for the client, the changes to make
//! durable, and the waiters to wake. [`Machine::next_deadline`] returns the time at which the next sweep has work to
//! do.
//!
//! The crate does no I/O, reads no clock, draws no random numbers, and has no async code and no threads. Every input
//! that can vary between runs is an argument. The same commands at the same times produce the same changes, and the
//! same changes produce the same state.
//!
//! Start reading at [`Ask`], then [`Change`], then `transition.rs` (the rules that all commands share) and
//! `apply/acquire.rs`.

mod absorb;
mod account;
mod apply;
mod arena;
mod ask;
mod asker;
mod catalog;
mod change;
mod changed;
mod circle;
mod collect;
mod command;
mod deadline;
mod deadlock;
mod ended;
mod fact;
mod footprint;
mod glance;
mod group;
mod holdings;
mod idle;
mod index;
pub mod invariant;
mod lease;
mod limits;
mod lock;
mod machine;
pub mod mutant;
mod name;
mod namespace;
mod outcome;
mod owner;
mod queue;
mod request;
mod retry;
mod session;
mod share;
mod snapshot;
mod state;
mod time;
mod token;
mod transition;
mod view;
mod vigil;

/// Returns whether this deliberate bug is switched on. Always false in builds without the feature `mutants`.
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutant::is_on($crate::mutant::Mutant::$name)
    };
}

pub use absorb::Incoherent;
pub use ask::{Ask, Command, Outcome};
pub use asker::{Asker, Call};
pub use change::{Change, Note};
pub use circle::trimmed;
pub use collect::Collected;
pub use command::{
    Acquire, AcquireAll, Amend, Cancel, CloseSession, Confirm, EndSession, Extend, GiveUp,
    KeepSession, Leave, Maintain, OpenSession, Other, Proof, Prove, Quota, Release, ReleaseAll,
    Renew, RenewAll, Restore, Resume, Revoke, Settle, StepAside, Sweep, Target, Wait,
};
pub use fact::{Fact, What};
pub use footprint::Footprint;
pub use glance::{Glance, OwnerSeen};
pub use group::Group;
pub use holdings::Whose;
pub use lease::{Ending, LeaseId, LeaseNumber, LeaseRecord, Mode, Phase, Secret};
pub use limits::Limits;
pub use lock::{LapseRecord, LockRecord};
pub use machine::Machine;
pub use name::{Dialect, LockKey, Owner, Peer};
pub use outcome::{
    Acquired, AcquiredAll, Applied, Effects, Exceeded, Grant, GrantKind, Holding, Limit, Rejection,
    SessionOpened, Swept,
};
pub use request::{Operation, Request};
pub use retry::RetryHint;
pub use session::{Credential, SessionDigest, SessionNumber, SessionRecord};
pub use share::{OF_PATHS, is_share, is_share_name};
pub use snapshot::{Importer, Row};
pub use time::{Span, Timestamp};
pub use token::Token;
pub use view::{Counts, Detail, LeaseView, LockView, NamespaceCount};
