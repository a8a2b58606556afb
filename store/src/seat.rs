//! Leadership of a store, called the seat: only the process that holds it writes.
//!
//! The seat of an embedded store is always vacant and is taken immediately. If several machines share a store, a
//! process without the seat follows: it reads the records that the leader writes, so that it can take over immediately
//! when the seat becomes vacant.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::clock::Moment;
use leasehold_core::{Fact, Limits};

use super::{Error, Health, Loaded, Store};
use crate::event::{Event, EventId};

/// One process's part in a store: it follows, or takes the seat. The calls block.
pub trait Seat: Send {
    /// Waits for news, but at most for `patience`. The first result is [`News::State`] or [`News::Vacant`]. After an
    /// error, following is not possible any more.
    fn follow(&mut self, patience: Duration) -> Result<News, Error>;

    /// Tries to take the seat and to load everything written so far. Returns `None` if another process has the seat, or
    /// if that cannot be determined.
    fn take(&mut self) -> Result<Option<Taken>, Error>;

    /// Returns the leader, as far as it is known.
    fn leader(&self) -> Option<Leader>;

    /// Reads who leads now, and nothing else.
    fn find_leader(&mut self) -> Option<Leader>;

    /// Returns whether this process had read everything that was written, at its last poll.
    fn is_whole(&self) -> bool;

    /// Stops taking part.
    fn leave(&mut self);

    /// Returns the health of the store, which is updated continuously, whichever process writes.
    fn health(&self) -> Arc<Health> {
        Arc::default()
    }

    /// Returns whether writes are fast enough for a thread that has other work to do.
    fn is_near(&self) -> bool;
}

/// The result of taking the seat: the store to write to, and everything written so far.
pub type Taken = (Box<dyn Store>, Loaded);

/// The process that writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leader {
    /// The name of the node.
    pub node: Box<str>,
    /// The URL at which clients reach it.
    pub address: Box<str>,
    /// The address at which the other servers reach it. `None`: they cannot.
    pub peering: Option<Peering>,
    /// The revision of the store in which it became leader.
    pub seat: i64,
}

/// How the other servers reach a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Peering {
    /// HOST:PORT.
    pub address: Box<str>,
    /// The key that they have to present. `None`: a common key that all servers read from a file.
    pub key: Option<Box<str>>,
}

/// Omits the key, which is a secret.
impl fmt::Debug for Peering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peering").field("address", &self.address).finish_non_exhaustive()
    }
}

/// News for a follower.
pub enum News {
    /// A whole state, at first and whenever records were missed.
    State(Followed),
    /// More records, in order.
    Records(Vec<Told>),
    /// No process has the seat, and this one may take it.
    Vacant,
    /// No news.
    Quiet,
}

/// A whole state that was read.
pub struct Followed {
    /// The generation of the store, which changes when it is restored from a backup.
    pub generation: u64,
    /// The number of the last record.
    pub seq: u64,
    /// When the last record was written, by the clocks of this machine as far as they can tell.
    pub last: Moment,
    /// `told` contains the events of every record after this one.
    pub told_after: u64,
    /// The events, oldest first.
    pub told: Vec<Told>,
}

/// The events of a record.
pub struct Told {
    /// The number of the record.
    pub seq: u64,
    /// When the record was written, by the wall clock of its writer.
    pub wall_ms: i64,
    /// The events, in order.
    pub facts: Vec<Fact>,
    /// When the record was received, with the lock time of its writer.
    pub moment: Moment,
    /// Whether this node wrote the record.
    pub is_ours: bool,
}

impl Told {
    /// Converts the facts to events.
    pub fn events(self) -> impl Iterator<Item = Event> {
        let Self { seq, wall_ms, facts, .. } = self;
        let event =
            move |(index, fact)| Event::new(EventId { seq, index: index as u32 }, fact, wall_ms);
        facts.into_iter().enumerate().map(event)
    }
}

/// The seat of an embedded store, which no other process can have.
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

    /// Succeeds only once: to lead again, the process has to be restarted.
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
