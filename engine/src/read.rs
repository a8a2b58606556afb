//! Reads: what is shown is durable, and each takes a bounded part of a turn.

use std::sync::Arc;

use leasehold_auth::View;
use leasehold_core::{
    Detail, Dialect, LeaseNumber, LeaseRecord, LeaseView, LockKey, LockView, Rejection,
    SessionDigest, SessionRecord, Settle,
};

use super::batch::Batch;
use super::holders::{self, CheckToken, ReadLocks, TokenState};
use super::operator::{CountNamespaces, ListHoldings, ListSessions, ReadMaintenance};
use super::survey::Survey;
use super::watch::WatchLease;
use super::writer::Writer;

/// Leases, or names of locks, looked at for one page of a list before others get their turn.
pub(super) const SCAN_MAX: usize = 1024;
/// Names that are put in order in one turn of the first list.
const ORDERED_MAX: usize = 256;
/// Locks that are settled and shown in one turn: so it takes a small part of a millisecond.
const LOCKS_MAX: usize = 100;
/// About how much of one lock is shown, however many hold it or wait for it.
const LOCK_BYTES_MAX: usize = 64 * 1024;
/// Holders that are searched in one turn, but for those of the last lock.
const SEARCHED_MAX: usize = 1024;
/// About how much one page of a list has; more is another page.
const PAGE_BYTES: usize = 64 * 1024;

/// Something that can be looked up. It changes nothing, except that what has fallen due is written down first.
pub trait Look {
    /// What is found.
    type Found;

    /// Looks it up.
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

        /// What any of them found.
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

/// What can be looked up. The list stands here once, for whatever is written for each.
macro_rules! each_read {
    ($write:ident) => {
        $write!(
            ReadLock,
            ReadLocks,
            CheckToken,
            ListLocks,
            ReadSession,
            ReadLease,
            ReadLeases,
            ListLeases,
            ListHoldings,
            ListSessions,
            CountNamespaces,
            ReadMaintenance,
            Survey,
            WatchLease,
            Probe
        );
    };
}

pub(super) use each_read;
each_read!(reads);

/// One lock.
#[derive(Clone, Debug)]
pub struct ReadLock {
    /// Which lock.
    pub key: LockKey,
    /// How much of its queue.
    pub n_queue_max: usize,
}

/// Some of the locks.
#[derive(Clone, Debug)]
pub struct ListLocks(pub Filter);

/// A session of a dialect, by its secret.
#[derive(Clone, Debug)]
pub struct ReadSession {
    /// Hash of its secret.
    pub digest: SessionDigest,
    /// The dialect that opened it.
    pub dialect: Dialect,
    /// Whose it must be, if that matters.
    pub principal: Option<Arc<str>>,
}

/// One lease of a dialect, by number.
#[derive(Clone, Debug)]
pub struct ReadLease {
    /// Which lease.
    pub number: LeaseNumber,
    /// The dialect that granted it.
    pub dialect: Dialect,
    /// What its reader may see: anything else is not there.
    pub view: View,
}

impl ReadLease {
    /// To be seen by anybody, until somebody is permitted to.
    pub fn new(number: LeaseNumber, dialect: Dialect) -> Self {
        Self { number, dialect, view: View::default() }
    }
}

/// These leases of a dialect: as many as fit a page. The page goes on at the place in the list of the first that does
/// not.
#[derive(Clone, Debug)]
pub struct ReadLeases {
    /// Which leases.
    pub numbers: Vec<LeaseNumber>,
    /// The dialect that granted them.
    pub dialect: Dialect,
    /// What its reader may see.
    pub view: View,
}

impl ReadLeases {
    /// To be seen by anybody, until somebody is permitted to.
    pub fn new(numbers: Vec<LeaseNumber>, dialect: Dialect) -> Self {
        Self { numbers, dialect, view: View::default() }
    }
}

impl ListLeases {
    /// To be seen by anybody, until somebody is permitted to.
    pub fn new(dialect: Dialect, from: usize) -> Self {
        Self { dialect, from, view: View::default() }
    }
}

/// Some of the leases of a dialect that stay readable after their end, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct ListLeases {
    /// The dialect that granted them.
    pub dialect: Dialect,
    /// Where to go on: with the first that has this number or a later one.
    pub from: usize,
    /// What its reader may see.
    pub view: View,
}

/// Could something be made durable right now? It is answered if it could.
#[derive(Clone, Debug)]
pub struct Probe;

/// Which locks to list.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Of this namespace.
    pub namespace: Box<str>,
    /// Whose name begins so.
    pub prefix: Box<str>,
    /// That this owner (its instance) has or waits for.
    pub owner: Option<Box<str>>,
    /// In this standing.
    pub standing: Option<Standing>,
    /// Most to return.
    pub n_max: usize,
    /// Where to go on: after this name.
    pub after: Option<Box<str>>,
    /// What its reader may see: what is not in it is not counted either.
    pub view: View,
    /// Leave out what is only held on the way to something else.
    pub leave_out: Option<LeaveOut>,
}

/// Locks nobody asked for by their name: those of such a name that only these dialects hold.
#[derive(Clone, Copy, Debug)]
pub struct LeaveOut {
    /// Is it such a name?
    pub is_name: fn(&str) -> bool,
    /// Who takes them on the way.
    pub dialects: &'static [Dialect],
}

impl LeaveOut {
    fn applies(&self, name: &str, view: &LockView) -> bool {
        let mut leases = view.holders.iter().chain(&view.queue);
        (self.is_name)(name) && leases.all(|lease| self.dialects.contains(&lease.dialect))
    }
}

/// How a lock stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Somebody has it.
    Held,
    /// Somebody waits for it.
    Waiting,
    /// Nobody has it.
    Free,
}

/// Some of the locks.
#[derive(Clone, Debug, Default)]
pub struct LockPage {
    /// These.
    pub locks: Vec<(LockKey, LockView)>,
    /// About how much there is to show of them.
    pub n_bytes: usize,
    /// Where to go on: after this name, which its reader may not be allowed to see. There may be more even if there was
    /// nothing on this page.
    pub next: Option<Box<str>>,
}

/// Some of the leases.
#[derive(Clone, Debug)]
pub struct LeasePage {
    /// These.
    pub leases: Vec<LeaseRecord>,
    /// Where to go on.
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
        let mut page = LockPage::default();
        if !writer.machine.order_names(ORDERED_MAX) {
            // Nothing yet, and the same again: no name is before the empty one.
            page.next = Some(filter.after.unwrap_or_default());
            return page;
        }
        let (names, last) = names(writer, &filter);
        let detail = Detail { n_queue_max: SCAN_MAX, n_bytes_max: LOCK_BYTES_MAX };
        let mut before = filter.after.clone();
        for name in names {
            if page.locks.len() == filter.n_max || page.n_bytes >= PAGE_BYTES {
                page.next = before;
                return page;
            }
            let key = LockKey::new(&*filter.namespace, name.clone());
            before = Some(name);
            // Nothing is shown as over that is not durably over.
            let _ = writer.apply(Settle(key.clone()), batch);
            let view = writer.machine.lock_in_part(&key, detail);
            if matches(&key.name, &view, &filter) {
                page.n_bytes += view.n_bytes();
                page.locks.push((key, view));
            }
        }
        page.next = last;
        page
    }
}

/// The next names a list is to look at, and the last that was passed if there may be more after it.
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

/// As many of these leases as fit a page. It goes on at the place of the first that does not.
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

/// A lease as it durably is. Nothing overdue is shown as if it were not.
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

fn matches(name: &str, view: &LockView, filter: &Filter) -> bool {
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
