//! Reads. They return only durable state, and each takes a bounded part of a round.

use std::sync::Arc;

use leasehold_auth::View;
use leasehold_core::{
    Detail, Dialect, LeaseNumber, LeaseRecord, LeaseView, LockKey, LockView, Rejection,
    SessionDigest, SessionRecord, Settle,
};

use super::batch::Batch;
use super::directory::{Collect, ListNames, StopCollecting};
use super::holders::{self, CheckToken, ReadLocks, TokenState};
use super::operator::{CountNamespaces, ListHoldings, ListSessions, ReadMaintenance};
use super::watch::WatchLease;
use super::writer::Writer;

/// Maximum leases or lock names that one page of a list inspects before other requests get their turn.
pub(super) const SCAN_MAX: usize = 1024;
/// Maximum names that the first list sorts in one round.
const ORDERED_MAX: usize = 256;
/// Maximum locks that are settled and shown in one round, so that it takes well under a millisecond.
pub(super) const LOCKS_MAX: usize = 100;
/// Approximate maximum bytes shown of one lock, however many holders and waiters it has.
pub(super) const LOCK_BYTES_MAX: usize = 64 * 1024;
/// Maximum holders that one round searches, except those of the last lock.
const SEARCHED_MAX: usize = 1024;
/// About how much one page of a list has; more is another page.
pub(super) const PAGE_BYTES: usize = 64 * 1024;

/// A read. It changes nothing, except that overdue leases are ended first.
pub trait Look {
    /// The type of the result.
    type Found;

    /// Performs the read.
    #[doc(hidden)]
    fn look(self, writer: &mut Writer, batch: &mut Batch) -> Self::Found;
}

macro_rules! reads {
    ($($name:ident),* $(,)?) => {
        /// Any of the reads.
        #[derive(Clone, Debug)]
        pub enum Read {
            $(#[doc = concat!("[`", stringify!($name), "`].")] $name($name),)*
        }

        /// The result of any of the reads.
        #[derive(Clone, Debug)]
        pub enum Found {
            $(#[doc = concat!("What [`", stringify!($name), "`] found.")] $name(<$name as Look>::Found),)*
        }

        impl Look for Read {
            type Found = Found;

            fn look(self, writer: &mut Writer, batch: &mut Batch) -> Found {
                match self {
                    $(Read::$name(read) => Found::$name(read.look(writer, batch)),)*
                }
            }
        }
    };
}

/// Calls a macro with the list of all reads, so that the list exists only once.
macro_rules! each_read {
    ($write:ident) => {
        $write!(
            ReadLock,
            ReadLocks,
            CheckToken,
            ListLocks,
            ListNames,
            ReadSession,
            ReadLease,
            ReadLeases,
            ListLeases,
            ListHoldings,
            ListSessions,
            CountNamespaces,
            ReadMaintenance,
            Collect,
            StopCollecting,
            WatchLease,
            Probe
        );
    };
}

pub(super) use each_read;
each_read!(reads);

/// Reads one lock.
#[derive(Clone, Debug)]
pub struct ReadLock {
    /// The lock.
    pub key: LockKey,
    /// Maximum waiters to return.
    pub n_queue_max: usize,
}

/// Some of the locks.
#[derive(Clone, Debug)]
pub struct ListLocks(pub Filter);

/// Reads a session by its secret.
#[derive(Clone, Debug)]
pub struct ReadSession {
    /// The hash of the session's secret.
    pub digest: SessionDigest,
    /// The dialect that opened it.
    pub dialect: Dialect,
    /// The principal that the session must belong to, if any.
    pub principal: Option<Arc<str>>,
}

/// Reads a lease by its number.
#[derive(Clone, Debug)]
pub struct ReadLease {
    /// The number of the lease.
    pub number: LeaseNumber,
    /// The dialect that granted it.
    pub dialect: Dialect,
    /// The locks that the caller can see. Leases of other locks are not found.
    pub view: View,
}

impl ReadLease {
    /// Creates a read with an unrestricted view. Checking permissions restricts it.
    pub fn new(number: LeaseNumber, dialect: Dialect) -> Self {
        Self { number, dialect, view: View::default() }
    }
}

/// Reads leases of a dialect by their numbers, page by page.
#[derive(Clone, Debug)]
pub struct ReadLeases {
    /// The numbers of the leases.
    pub numbers: Vec<LeaseNumber>,
    /// The dialect that granted them.
    pub dialect: Dialect,
    /// The locks that the caller can see.
    pub view: View,
}

impl ReadLeases {
    /// Creates a read with an unrestricted view. Checking permissions restricts it.
    pub fn new(numbers: Vec<LeaseNumber>, dialect: Dialect) -> Self {
        Self { numbers, dialect, view: View::default() }
    }
}

impl ListLeases {
    /// Creates a list with an unrestricted view. Checking permissions restricts it.
    pub fn new(dialect: Dialect, from: usize) -> Self {
        Self { dialect, from, view: View::default() }
    }
}

/// Lists the leases of a dialect that stay readable after they end, by number, page by page.
#[derive(Clone, Debug)]
pub struct ListLeases {
    /// The dialect that granted them.
    pub dialect: Dialect,
    /// The first lease number of the page.
    pub from: usize,
    /// The locks that the caller can see.
    pub view: View,
}

/// Checks that the store can commit: the probe is answered if it can.
#[derive(Clone, Debug)]
pub struct Probe;

/// Selects the locks of a list.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The namespace.
    pub namespace: Box<str>,
    /// The prefix of the lock's name.
    pub prefix: Box<str>,
    /// The instance of an owner that holds the lock or waits for it.
    pub owner: Option<Box<str>>,
    /// The state of the lock.
    pub standing: Option<Standing>,
    /// Maximum locks to return.
    pub n_max: usize,
    /// Where the page starts: after this name.
    pub after: Option<Box<str>>,
    /// The locks that the caller can see. Other locks are not counted either.
    pub view: View,
    /// Excludes locks on folders that are held only to protect something inside the folder.
    pub leave_out: Option<LeaveOut>,
}

/// Selects locks that clients did not ask for by name: those with certain names that only certain dialects hold.
#[derive(Clone, Copy, Debug)]
pub struct LeaveOut {
    /// Returns whether a lock name is affected.
    pub is_name: fn(&str) -> bool,
    /// The dialects that acquire such locks implicitly.
    pub dialects: &'static [Dialect],
}

impl LeaveOut {
    fn applies(&self, name: &str, view: &LockView) -> bool {
        let mut leases = view.holders.iter().chain(&view.queue);
        (self.is_name)(name) && leases.all(|lease| self.dialects.contains(&lease.dialect))
    }
}

/// The state of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The lock has a holder.
    Held,
    /// The lock has a waiter.
    Waiting,
    /// The lock has no holder.
    Free,
}

/// A page of locks.
#[derive(Clone, Debug, Default)]
pub struct LockPage {
    /// The locks.
    pub locks: Vec<(LockKey, LockView)>,
    /// The approximate size of the page.
    pub n_bytes: usize,
    /// Where the next page starts: after this name. The caller might not be allowed to see the name. `None` after the
    /// last page; a page before it can be empty.
    pub next: Option<Box<str>>,
}

/// A page of leases.
#[derive(Clone, Debug)]
pub struct LeasePage {
    /// The leases.
    pub leases: Vec<LeaseRecord>,
    /// Where the next page starts; `None` after the last page.
    pub next: Option<usize>,
}

impl Look for ReadLock {
    type Found = Result<Box<LockView>, Rejection>;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> Self::Found {
        let ReadLock { key, n_queue_max } = self;
        writer.apply(Settle(key.clone()), batch)?;
        let detail = Detail { n_queue_max, n_bytes_max: LOCK_BYTES_MAX };
        Ok(Box::new(writer.machine.lock_in_part(&key, detail)))
    }
}

impl Look for ReadLocks {
    type Found = Result<Vec<LockView>, Rejection>;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> Self::Found {
        let detail = Detail { n_queue_max: 0, n_bytes_max: LOCK_BYTES_MAX };
        let (mut views, mut n_bytes, mut n_searched) = (Vec::new(), 0, 0);
        for key in self.keys.into_iter().take(LOCKS_MAX) {
            writer.apply(Settle(key.clone()), batch)?;
            let mut view = writer.machine.lock_in_part(&key, detail);
            n_searched += holders::complete(&mut view, &writer.machine, (&key, &self.secrets));
            n_bytes += view.n_bytes();
            views.push(view);
            if n_bytes >= PAGE_BYTES || n_searched >= SEARCHED_MAX {
                break;
            }
        }
        Ok(views)
    }
}

impl Look for CheckToken {
    type Found = Result<TokenState, Rejection>;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> Self::Found {
        let Self { key, token } = self;
        writer.apply(Settle(key.clone()), batch)?;
        let is_held = writer.machine.is_held_with(&key, token);
        Ok(TokenState { is_held, last_token: writer.machine.last_token(&key) })
    }
}

impl Look for ListLocks {
    type Found = LockPage;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> LockPage {
        let filter = self.0;
        if !writer.machine.order_names(ORDERED_MAX) {
            // The caller repeats the request from the same place. No name sorts before the empty one.
            let next = Some(filter.after.unwrap_or_default());
            return LockPage { next, ..LockPage::default() };
        }
        let (names, next) = names(writer, &filter);
        ListNames { filter, names, next }.look(writer, batch)
    }
}

/// Returns the next lock names for a list. Also returns the last inspected name if there might be more after it.
fn names(writer: &Writer, filter: &Filter) -> (Vec<Box<str>>, Option<Box<str>>) {
    let Filter { namespace, prefix, after, view, .. } = filter;
    let from = after.as_deref().map_or(&**prefix, |after| after.max(prefix));
    let all = writer.machine.names(namespace, from);
    let all = all.take_while(|name| name.starts_with(&**prefix));
    let all = all.skip_while(|name| Some(*name) == after.as_deref());
    let (mut some, mut last) = (Vec::new(), None);
    for (n_seen, name) in all.enumerate() {
        if n_seen == SCAN_MAX || some.len() == LOCKS_MAX {
            return (some, last.map(Box::from));
        }
        last = Some(name);
        if view.shows(&LockKey::new(&**namespace, name)) {
            some.push(name.into());
        }
    }
    (some, None)
}

impl Look for ReadSession {
    type Found = Option<Box<SessionRecord>>;

    fn look(self, writer: &mut Writer, _: &mut Batch) -> Self::Found {
        let session = writer.machine.session(&self.digest);
        let is_theirs = |session: &SessionRecord| {
            self.principal.is_none_or(|principal| principal == session.owner.principal)
        };
        session.filter(|session| session.dialect == self.dialect).filter(is_theirs).map(Box::new)
    }
}

impl Look for ReadLease {
    type Found = Option<Box<LeaseRecord>>;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> Self::Found {
        settled_lease(writer, self.number, self.dialect, &self.view, batch).map(Box::new)
    }
}

impl Look for ReadLeases {
    type Found = LeasePage;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> LeasePage {
        page(writer, self.numbers.into_iter().enumerate(), self.dialect, &self.view, batch)
    }
}

impl Look for ListLeases {
    type Found = LeasePage;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> LeasePage {
        let ListLeases { dialect, from, view } = self;
        let mut next = None;
        let mut numbers = Vec::new();
        let from = LeaseNumber(from as u64);
        for (n_seen, (number, of)) in writer.machine.listed_leases(from).enumerate() {
            if n_seen == SCAN_MAX {
                next = Some(number.0 as usize);
                break;
            }
            numbers.extend((of == dialect).then_some((number.0 as usize, number)));
        }
        let page = page(writer, numbers.into_iter(), dialect, &view, batch);
        LeasePage { next: page.next.or(next), ..page }
    }
}

impl Look for Probe {
    type Found = ();

    fn look(self, _: &mut Writer, _: &mut Batch) {}
}

/// Returns as many of these leases as fit a page. The next page starts at the first that does not.
fn page(
    writer: &mut Writer,
    numbers: impl Iterator<Item = (usize, LeaseNumber)>,
    dialect: Dialect,
    view: &View,
    batch: &mut Batch,
) -> LeasePage {
    let (mut leases, mut n_bytes) = (Vec::new(), 0);
    for (place, number) in numbers {
        if n_bytes >= PAGE_BYTES {
            return LeasePage { leases, next: Some(place) };
        }
        if let Some(lease) = settled_lease(writer, number, dialect, view, batch) {
            let metadata = lease.metadata.as_ref().map_or(0, |metadata| metadata.len());
            n_bytes += LeaseView::BYTES + metadata;
            leases.push(lease);
        }
    }
    LeasePage { leases, next: None }
}

/// Returns a lease in its durable state, after ending it if it is overdue.
fn settled_lease(
    writer: &mut Writer,
    number: LeaseNumber,
    dialect: Dialect,
    view: &View,
    batch: &mut Batch,
) -> Option<LeaseRecord> {
    let record = writer.machine.lease_record(number)?;
    if record.dialect != dialect || !view.shows_lease(&record.lock, &record.owner.principal) {
        return None;
    }
    let _ = writer.apply(Settle(record.lock), batch);
    writer.machine.lease_record(number)
}

pub(super) fn matches(name: &str, view: &LockView, filter: &Filter) -> bool {
    if filter.leave_out.is_some_and(|leave_out| leave_out.applies(name, view)) {
        return false;
    }
    let is_held = !view.holders.is_empty();
    let stands = match filter.standing {
        None => true,
        Some(Standing::Held) => is_held,
        Some(Standing::Waiting) => view.n_waiting > 0,
        Some(Standing::Free) => !is_held,
    };
    let mut leases = view.holders.iter().chain(&view.queue);
    let owner = filter.owner.as_deref();
    stands && owner.is_none_or(|owner| leases.any(|lease| *lease.owner.instance == *owner))
}
