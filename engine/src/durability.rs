//! What differs between a store that only this process uses and a store that a cluster shares.

use std::time::Duration;

use super::error::Error;
use leasehold_store::{self as store, Kind, Room};

/// While nothing is written to a shared store, the leader confirms at least this often that it still leads.
const CONFIRM_EVERY: Duration = Duration::from_secs(1);
/// While the outcome of a write to a shared store is unknown, no request waits for longer than this.
const HELD_MAX: Duration = Duration::from_secs(5);

/// Who can write to the store. All decisions that depend on it are made here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Durability {
    /// Only this process. When it cannot continue, it stops, and the next start reads what is durable.
    Embedded,
    /// Any server of the cluster. When another one takes over, this one follows it.
    Shared,
}

impl Durability {
    fn is_shared(self) -> bool {
        self == Self::Shared
    }

    /// Returns whether another server can write in place of this one while it runs. Such a store confirms from time to
    /// time who leads, can ask the leader to step down, and can stop responding.
    pub(super) fn can_be_overtaken(self) -> bool {
        self.is_shared()
    }

    /// Returns whether the process continues after its writer has ended: it follows the next leader.
    pub(super) fn outlives_writer(self) -> bool {
        self.is_shared()
    }

    /// Returns whether a batch waits for the requests of clients that were just answered. That pays off if a write
    /// takes much longer than the way of a request.
    pub(super) fn gathers_requests(self) -> bool {
        self.is_shared()
    }

    /// Returns whether the response to an empty batch needs a record all the same: the first record of an epoch, and
    /// the time of a deadline. Without it, the next leader could still count a lease as held after a client was told
    /// that the lease has expired.
    pub(super) fn needs_record(self, kind: Kind, has_deadline_passed: impl Fn() -> bool) -> bool {
        self.is_shared() && (kind == Kind::Epoch || has_deadline_passed())
    }

    /// Returns how often the store has to confirm that this process still leads, if no record does.
    pub(super) fn confirm_every(self) -> Option<Duration> {
        self.is_shared().then_some(CONFIRM_EVERY)
    }

    /// Returns how long requests wait for an unsettled write before they are rejected.
    pub(super) fn held_max(self) -> Option<Duration> {
        self.is_shared().then_some(HELD_MAX)
    }

    /// Returns whether a write that stays unsettled for too long ends the process, so that a restart determines its
    /// outcome. A leader of a shared store continues to ask, because it would have to ask after a restart too.
    pub(super) fn stops_if_unsettled(self) -> bool {
        !self.is_shared()
    }

    /// Returns whether this error means that another server leads now, so that this process follows instead of ending.
    pub(super) fn is_overtaken(self, error: &store::Error) -> bool {
        self.is_shared() && matches!(error, store::Error::Fenced(_))
    }

    /// Returns why no request can be served while the store is unavailable.
    pub(super) fn unavailable(self, room: Room) -> Error {
        match self {
            _ if room.is_out => Error::StoreAlarmed,
            Self::Shared => Error::StoreSilent,
            Self::Embedded => Error::Busy,
        }
    }

    /// Returns why no locks can be granted while the store is short of space.
    pub(super) fn out_of_space(self, room: Room) -> Error {
        match self {
            Self::Embedded => Error::DiskFull,
            Self::Shared if room.is_out => Error::StoreAlarmed,
            Self::Shared => Error::StoreFull,
        }
    }
}
