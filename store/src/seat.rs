//! How a process comes to write: the seat, which one process has at a time.
//!
//! An embedded store has a seat that is always vacant and taken at once. Where several machines share a store, whoever
//! does not have the seat follows: it reads what the one who has it writes, so that it can go on at once when the seat
//! becomes vacant.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::clock::Moment;
use leasehold_core::{Fact, Limits};

use super::{Error, Health, Loaded, Store};
use crate::event::{Event, EventId};

/// The one place from which a store is written. Its calls block.
pub trait Seat: Send {
    /// What is new, after waiting for it no longer than this. The first answer is [`News::State`] or
    /// [`News::Vacant`]. An error means that following makes no sense any more.
    fn follow(&mut self, patience: Duration) -> Result<News, Error>;

    /// Tries to take the seat, with everything that was ever written; `None`: somebody else has it, or nobody can
    /// tell.
    fn take(&mut self) -> Result<Option<Taken>, Error>;

    /// Who has it, as far as is known.
    fn leader(&self) -> Option<Leader>;

    /// Asks who has it now, and nothing else.
    fn find_leader(&mut self) -> Option<Leader>;

    /// Had this process read everything that was written, when it last looked?
    fn is_whole(&self) -> bool;

    /// Takes part no more.
    fn leave(&mut self);

    /// How its store is, from now on, whoever writes there.
    fn health(&self) -> Arc<Health> {
        Arc::default()
    }

    /// Is what is written from it so near that a thread with other things to do may do it?
    fn is_near(&self) -> bool;
}

/// The seat, taken: where to write, and everything that was ever written.
pub type Taken = (Box<dyn Store>, Loaded);

/// Who writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leader {
    /// The name of the node.
    pub node: Box<str>,
    /// Where clients reach it.
    pub address: Box<str>,
    /// Where the other servers reach it; `None`: they cannot.
    pub peering: Option<Peering>,
    /// The revision of the store in which it became leader.
    pub seat: i64,
}

/// Where the other servers reach one of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Peering {
    /// HOST:PORT.
    pub address: Box<str>,
    /// What they have to show there; `None`: what all of them have been given in a file.
    pub key: Option<Box<str>>,
}

/// Without the key, which is a secret.
impl fmt::Debug for Peering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peering").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What a follower learns.
pub enum News {
    /// A whole state, at first and whenever some records were missed.
    State(Followed),
    /// More records, in order.
    Records(Vec<Told>),
    /// Nobody has the seat, and it may be taken.
    Vacant,
    /// Nothing that is known of.
    Quiet,
}

/// A state that was read.
pub struct Followed {
    /// Differs between a store and one restored from its backup.
    pub generation: u64,
    /// The number of the last record.
    pub seq: u64,
    /// When it was written, by the clocks of this machine as far as they can tell.
    pub last: Moment,
    /// What happened in every record after this one is told.
    pub told_after: u64,
    /// What happened, oldest first.
    pub told: Vec<Told>,
}

/// What a record says happened.
pub struct Told {
    /// The number of the record.
    pub seq: u64,
    /// When, by the wall clock of whoever wrote it.
    pub wall_ms: i64,
    /// What.
    pub facts: Vec<Fact>,
    /// When it was received, with the lock time of whoever wrote it.
    pub moment: Moment,
    /// This very node wrote it.
    pub is_ours: bool,
}

impl Told {
    /// As events.
    pub fn events(self) -> impl Iterator<Item = Event> {
        let Self { seq, wall_ms, facts, .. } = self;
        let event =
            move |(index, fact)| Event::new(EventId { seq, index: index as u32 }, fact, wall_ms);
        facts.into_iter().enumerate().map(event)
    }
}

/// The seat of a store that nobody else can have.
pub struct Embedded {
    store: Option<Box<dyn Store>>,
    limits: Limits,
    hash_seed: u128,
    is_near: bool,
}

impl Embedded {
    /// Creates the seat of a store that only this process uses.
    pub fn new(store: Box<dyn Store>, limits: Limits, hash_seed: u128) -> Self {
        let is_near = store.is_near();
        Self { store: Some(store), limits, hash_seed, is_near }
    }
}

impl Seat for Embedded {
    fn follow(&mut self, _: Duration) -> Result<News, Error> {
        Ok(News::Vacant)
    }

    /// Only once: whoever gives it up has to be started again.
    fn take(&mut self) -> Result<Option<Taken>, Error> {
        let Some(mut store) = self.store.take() else { return Ok(None) };
        let loaded = store.load(self.limits.clone(), self.hash_seed)?;
        Ok(Some((store, loaded)))
    }

    fn leader(&self) -> Option<Leader> {
        None
    }

    fn find_leader(&mut self) -> Option<Leader> {
        None
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn leave(&mut self) {}

    fn is_near(&self) -> bool {
        self.is_near
    }
}
