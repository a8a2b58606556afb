//! All locks of all namespaces, gone through in turns: what is there is counted, what is wanted is put in order.
//!
//! No order is kept for it, and nothing is copied but the places of the page that is wanted. A turn looks at a bounded
//! number of locks and compares a bounded amount of text. What the locks are like is asked afterwards, of those on the
//! page only.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_auth::View;
use leasehold_core::{Dialect, Glance, LockKey, Timestamp};

use super::batch::Batch;
use super::owner::shown;
use super::read::{Look, SCAN_MAX};
use super::writer::Writer;

/// Locks that are looked at before it is asked whether the turn is over: how much text they have is not known before.
const STEP: usize = 32;
/// Text that is searched in one turn.
const SEARCHED_BYTES_MAX: usize = 256 * 1024;
/// Holders, and waiters, of one lock that are searched.
const OWNERS_MAX: usize = 16;
/// Namespaces that are named.
const NAMESPACES_MAX: usize = 200;

/// Go through some more of the locks.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Where to go on.
    pub from: usize,
    /// What is wanted.
    pub wanted: Wanted,
    /// What was found so far.
    pub tally: Box<Tally>,
    /// What its reader may see: what is not in it is not counted either.
    pub view: View,
    /// In this namespace, locks with shares only are left out.
    pub of_paths: Option<Arc<str>>,
}

/// Which locks are wanted, and in which order.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// In whose name, or that of a holder or waiter, this is, in small letters.
    pub search: Box<str>,
    /// Of this namespace.
    pub namespace: Option<Box<str>>,
    /// That stand like this.
    pub standing: Option<Stand>,
    /// That are held, reserved or waited for through this dialect.
    pub dialect: Option<Dialect>,
    /// In this order.
    pub order: Order,
    /// Only those after this place.
    pub after: Option<Place>,
    /// Most places that are remembered.
    pub n_max: usize,
}

/// How a lock stands. One that is held or reserved can be waited for too.
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
    /// What most wait for.
    Waiters,
    /// What somebody waits for longest.
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

/// Where a lock is in an order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// What the order goes by.
    pub rank: u64,
    /// Which lock.
    pub key: LockKey,
}

impl Place {
    fn compare(&self, rank: u64, lock: Glance<'_>) -> Ordering {
        let own = (self.rank, &*self.key.namespace, &*self.key.name);
        own.cmp(&(rank, &**lock.namespace(), lock.name()))
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Locks there are.
    pub n_locks: usize,
    /// Everybody who holds one.
    pub n_held: usize,
    /// Locks that are reserved for their last owner.
    pub n_grace: usize,
    /// Everybody who waits.
    pub n_waiters: usize,
    /// Locks that are wanted.
    pub n_wanted: usize,
    /// Of these, the ones up to the place after which the page begins.
    pub n_before: usize,
    /// The last places up to that: those of the page before, and one more if there is one.
    pub before: BTreeSet<Place>,
    /// The first places after that.
    pub places: BTreeSet<Place>,
    /// Namespaces with locks in them: the first by name.
    pub namespaces: BTreeSet<Arc<str>>,
}

/// What was found so far, and where to go on.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// What was found.
    pub tally: Box<Tally>,
    /// Where to go on; `None`: these were all.
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

/// Looks for a text, whatever its case.
struct Search<'a> {
    text: &'a str,
    small: String,
    /// How much it has gone through.
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
                // The search covers only the shown part: otherwise the rest could be guessed letter by letter.
                self.is_in(&shown(dialect, owner)) || self.is_in(&owner.principal)
            })
    }

    fn is_in(&mut self, text: &str) -> bool {
        self.n_bytes += text.len();
        self.small.clear();
        // Nearly all names are plain.
        if text.is_ascii() {
            self.small.push_str(text);
            self.small.make_ascii_lowercase();
        } else {
            self.small.extend(text.chars().flat_map(char::to_lowercase));
        }
        self.small.contains(self.text)
    }
}
