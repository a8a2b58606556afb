//! Scans all locks of all namespaces, over several rounds: counts them, and sorts those that match.
//!
//! There is no index for this, and only the positions of the requested page are copied. One round inspects a bounded
//! number of locks and compares a bounded amount of text. The locks on the page are read afterwards.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_auth::View;
use leasehold_core::{Dialect, Glance, LockKey, Timestamp};

use super::batch::Batch;
use super::owner::shown;
use super::read::{Look, SCAN_MAX};
use super::writer::Writer;

/// Number of locks inspected between two checks of the text budget, because their text length is not known in advance.
const STEP: usize = 32;
/// Maximum bytes of text searched in one round.
const SEARCHED_BYTES_MAX: usize = 256 * 1024;
/// Maximum holders, and waiters, of one lock that are searched.
const OWNERS_MAX: usize = 16;
/// Maximum namespaces listed by name.
const NAMESPACES_MAX: usize = 200;

/// Scans some more of the locks.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Where to continue.
    pub from: usize,
    /// The locks to find.
    pub wanted: Wanted,
    /// The results so far.
    pub tally: Box<Tally>,
    /// The locks that the caller can see. Other locks are not counted either.
    pub view: View,
    /// The namespace in which locks that have only shared holders are skipped.
    pub of_paths: Option<Arc<str>>,
}

/// The locks to find, and their order.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Text that the name of the lock or of a holder or waiter contains, in lower case.
    pub search: Box<str>,
    /// Only locks of this namespace.
    pub namespace: Option<Box<str>>,
    /// Only locks in this state.
    pub standing: Option<Stand>,
    /// Only locks that are held, reserved or waited for through this dialect.
    pub dialect: Option<Dialect>,
    /// The order of the results.
    pub order: Order,
    /// Only locks after this position.
    pub after: Option<Place>,
    /// Maximum positions to remember.
    pub n_max: usize,
}

/// The state of a lock. A held or reserved lock can have waiters too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "plain")]
pub enum Stand {
    Held,
    Waiting,
    Grace,
    Free,
}

/// The order of the results. Locks that are equal in it are sorted by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Sorts by namespace and name.
    #[default]
    Name,
    /// The earliest expiry first.
    Ends,
    /// The longest held first.
    Held,
    /// The most waiters first.
    Waiters,
    /// The longest wait first.
    Waited,
}

impl Order {
    fn rank(self, lock: Glance<'_>) -> u64 {
        let at = |time: Option<Timestamp>| time.map_or(u64::MAX, Timestamp::as_nanos);
        match self {
            Order::Name => 0,
            Order::Ends => at(lock.deadline().or(lock.grace_until())),
            Order::Held => at(lock.held_since()),
            Order::Waiters => u64::MAX - lock.n_waiting() as u64,
            Order::Waited => at(lock.waited_since()),
        }
    }
}

/// The position of a lock in an order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The value that is compared first; smaller comes first.
    pub rank: u64,
    /// The lock.
    pub key: LockKey,
}

impl Place {
    fn compare(&self, rank: u64, lock: Glance<'_>) -> Ordering {
        let own = (self.rank, &*self.key.namespace, &*self.key.name);
        own.cmp(&(rank, &**lock.namespace(), lock.name()))
    }
}

/// The results of a scan.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of locks.
    pub n_locks: usize,
    /// The number of active leases.
    pub n_held: usize,
    /// The number of locks reserved for their last owner.
    pub n_grace: usize,
    /// The number of waiters.
    pub n_waiters: usize,
    /// The number of matching locks.
    pub n_wanted: usize,
    /// How many of the matching locks are not after `after`, where the page starts.
    pub n_before: usize,
    /// The last positions before the page: the previous page, and one more if there is one.
    pub before: BTreeSet<Place>,
    /// The positions on the page.
    pub places: BTreeSet<Place>,
    /// Namespaces with locks in them: the first ones by name.
    pub namespaces: BTreeSet<Arc<str>>,
}

/// The results so far, and where to continue.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// The results so far.
    pub tally: Box<Tally>,
    /// Where to continue; `None` if the scan is complete.
    pub next: Option<usize>,
}

impl Look for Survey {
    type Found = Surveyed;

    fn look(self, writer: &mut Writer, _: &mut Batch) -> Surveyed {
        let Survey { mut from, wanted, mut tally, view, of_paths } = self;
        let mut search = Search { text: &wanted.search, small: String::new(), n_bytes: 0 };
        for _ in 0..SCAN_MAX / STEP {
            let (locks, next) = writer.machine.glances(from, STEP);
            let is_shown = |lock: &Glance<'_>| {
                of_paths.as_ref() != Some(lock.namespace()) || !lock.is_only_shared()
            };
            for lock in locks.filter(is_shown) {
                tally.look(lock, &wanted, &view, &mut search);
            }
            match next {
                Some(next) => from = next,
                None => return Surveyed { tally, next: None },
            }
            if search.n_bytes >= SEARCHED_BYTES_MAX {
                break;
            }
        }
        Surveyed { tally, next: Some(from) }
    }
}

impl Tally {
    fn look(&mut self, lock: Glance<'_>, wanted: &Wanted, view: &View, search: &mut Search<'_>) {
        let key = || LockKey::new(lock.namespace().clone(), lock.name());
        if !view.is_all() && !view.shows(&key()) {
            return;
        }
        let (is_held, n_waiting) = (lock.n_holders() > 0, lock.n_waiting());
        let in_grace = lock.grace_until().is_some();
        self.n_locks += 1;
        self.n_held += lock.n_holders();
        self.n_grace += usize::from(in_grace);
        self.n_waiters += n_waiting;
        self.name(lock.namespace());
        let stands = wanted.standing.is_none_or(|standing| match standing {
            Stand::Held => is_held,
            Stand::Waiting => n_waiting > 0,
            Stand::Grace => in_grace,
            Stand::Free => !is_held && !in_grace,
        });
        let is_there =
            wanted.namespace.as_deref().is_none_or(|wanted| wanted == &**lock.namespace());
        let is_so = wanted.dialect.is_none_or(|dialect| lock.dialect() == Some(dialect));
        if !(stands && is_there && is_so && search.finds(lock)) {
            return;
        }
        self.n_wanted += 1;
        let rank = wanted.order.rank(lock);
        if wanted.after.as_ref().is_some_and(|after| after.compare(rank, lock).is_ge()) {
            self.n_before += 1;
            let is_full = self.before.len() > wanted.n_max;
            if is_full && self.before.first().is_none_or(|first| first.compare(rank, lock).is_ge())
            {
                return;
            }
            self.before.insert(Place { rank, key: key() });
            if self.before.len() > wanted.n_max + 1 {
                self.before.pop_first();
            }
            return;
        }
        let is_full = self.places.len() >= wanted.n_max;
        if is_full && self.places.last().is_none_or(|last| last.compare(rank, lock).is_le()) {
            return;
        }
        self.places.insert(Place { rank, key: key() });
        if self.places.len() > wanted.n_max {
            self.places.pop_last();
        }
    }

    fn name(&mut self, namespace: &Arc<str>) {
        if !self.namespaces.contains(namespace) {
            self.namespaces.insert(namespace.clone());
            if self.namespaces.len() > NAMESPACES_MAX {
                self.namespaces.pop_last();
            }
        }
    }
}

/// A case-insensitive text search.
struct Search<'a> {
    text: &'a str,
    small: String,
    /// Bytes searched so far.
    n_bytes: usize,
}

impl Search<'_> {
    fn finds(&mut self, lock: Glance<'_>) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let mut owners = lock.owners(OWNERS_MAX);
        self.is_in(lock.name())
            || owners.any(|(dialect, owner)| {
                // Searches only the displayed part. Otherwise clients could guess the rest letter by letter.
                self.is_in(&shown(dialect, owner)) || self.is_in(&owner.principal)
            })
    }

    fn is_in(&mut self, text: &str) -> bool {
        self.n_bytes += text.len();
        self.small.clear();
        // Fast path, because nearly all names are ASCII.
        if text.is_ascii() {
            self.small.push_str(text);
            self.small.make_ascii_lowercase();
        } else {
            self.small.extend(text.chars().flat_map(char::to_lowercase));
        }
        self.small.contains(self.text)
    }
}
