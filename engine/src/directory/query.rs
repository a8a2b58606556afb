//! What can be asked of the directory, and what it finds.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_auth::{Part, View};
use leasehold_core::{Dialect, LockKey};

use super::counts::Counts;

/// Finds locks of all namespaces, and counts them.
#[derive(Clone, Debug)]
pub struct SearchLocks {
    /// Which locks, and in which order.
    pub query: LockQuery,
    /// What the reader may see: other locks are not counted either.
    pub view: View,
    /// In this namespace, locks with shares only are left out.
    pub of_paths: Option<Arc<str>>,
}

/// Which locks are wanted, and in which order.
#[derive(Clone, Debug, Default)]
pub struct LockQuery {
    /// Locks whose name, or the name of a holder or waiter, contains this, in small letters.
    pub search: Box<str>,
    /// Locks of this namespace.
    pub namespace: Option<Box<str>>,
    /// Locks in this state.
    pub stand: Option<Stand>,
    /// Locks that are held, reserved or waited for through this dialect.
    pub dialect: Option<Dialect>,
    /// The order.
    pub order: Order,
    /// Only locks after this place.
    pub after: Option<Place>,
    /// The maximum number of places on a page.
    pub n_max: usize,
}

/// The state of a lock. A lock that is held or reserved can be waited for too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "plain")]
pub enum Stand {
    Held,
    Waiting,
    Grace,
    Free,
}

/// What comes first. Names decide between equals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// By namespace and name.
    #[default]
    Name,
    /// What ends soonest.
    Ends,
    /// What is held longest.
    Held,
    /// What has the most waiters.
    Waiters,
    /// What has the waiter that waits longest.
    Waited,
}

/// Where a lock is in an order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// What the order goes by.
    pub rank: u64,
    /// Which lock.
    pub key: LockKey,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct FoundLocks {
    /// All locks that the reader may see, whether or not they are wanted.
    pub counts: Counts,
    /// The number of wanted locks.
    pub n_matches: usize,
    /// How many of them are up to the place after which the page begins.
    pub n_before: usize,
    /// The last places up to that: those of the previous page, and one more if there is one.
    pub before: BTreeSet<Place>,
    /// The first places after that.
    pub places: BTreeSet<Place>,
    /// Namespaces with locks in them: the first by name.
    pub namespaces: BTreeSet<Arc<str>>,
    /// How many locks were looked at one by one.
    pub n_visited: usize,
}

/// Which locks a reader may see.
pub(crate) trait Sight {
    /// Returns how many of the locks from `first` to `last` the reader may see.
    fn part_between(&self, namespace: &str, first: &str, last: &str) -> Part;

    /// Returns whether the reader may see a lock.
    fn shows(&self, lock: &LockKey) -> bool;
}

impl Sight for View {
    fn part_between(&self, namespace: &str, first: &str, last: &str) -> Part {
        self.shows_between(namespace, first, last)
    }

    fn shows(&self, lock: &LockKey) -> bool {
        View::shows(self, lock)
    }
}
