//! Reads: what is shown is durable, and each takes a bounded part of a turn.

use leasehold_core::{Command, Dialect, LeaseNumber, LeaseRecord, LockKey, LockView};

use super::message::{Filter, Page, Read, Reply, Standing};
use super::writer::{Batch, Writer};

/// Locks or leases looked at for one page of a list before others get their turn.
const SCAN_MAX: usize = 1024;

impl Writer {
    pub(super) fn read(&mut self, read: Read, batch: &mut Batch) -> Reply {
        match read {
            Read::Lock { key, n_queue_max } => {
                if let Err(rejection) = self.apply(Command::Settle(key.clone()), batch) {
                    return Reply::Applied(Err(rejection));
                }
                Reply::Lock(Box::new(self.machine.lock(&key, n_queue_max)))
            }
            Read::Locks(filter) => Reply::Locks(self.list(&filter, batch)),
            Read::Session(digest, dialect) => {
                let session = self.machine.session(&digest);
                let session = session.filter(|session| session.dialect == dialect);
                Reply::Session(session.map(Box::new))
            }
            Read::Lease(number, dialect) => {
                Reply::Lease(self.settled_lease(number, dialect, batch).map(Box::new))
            }
            Read::Leases(dialect, from) => self.list_leases(dialect, from, batch),
        }
    }

    fn list(&mut self, filter: &Filter, batch: &mut Batch) -> Page {
        let mut page = Page::default();
        let mut candidates = Vec::new();
        for (n_seen, (place, namespace, name)) in self.machine.locks(filter.from).enumerate() {
            if n_seen == SCAN_MAX {
                page.next = Some(place);
                break;
            }
            if *namespace == *filter.namespace && name.starts_with(&*filter.prefix) {
                candidates.push((place, LockKey::new(namespace, name)));
            }
        }
        for (place, key) in candidates {
            if page.locks.len() == filter.n_max {
                page.next = Some(place);
                break;
            }
            // Nothing is shown as over that is not durably over.
            let _ = self.apply(Command::Settle(key.clone()), batch);
            let view = self.machine.lock(&key, SCAN_MAX);
            if matches(&view, filter) {
                page.locks.push((key, view));
            }
        }
        page
    }

    fn list_leases(&mut self, dialect: Dialect, from: usize, batch: &mut Batch) -> Reply {
        let mut next = None;
        let mut numbers = Vec::new();
        for (n_seen, (place, number, of)) in self.machine.leases(from).enumerate() {
            if n_seen == SCAN_MAX {
                next = Some(place);
                break;
            }
            numbers.extend((of == dialect).then_some(number));
        }
        let leases = numbers.into_iter().filter_map(|n| self.settled_lease(n, dialect, batch));
        Reply::Leases(leases.collect(), next)
    }

    /// A lease as it durably is. Nothing overdue is shown as if it were not.
    fn settled_lease(
        &mut self,
        number: LeaseNumber,
        dialect: Dialect,
        batch: &mut Batch,
    ) -> Option<LeaseRecord> {
        let record = self.machine.lease_record(number)?;
        if record.dialect != dialect {
            return None;
        }
        let _ = self.apply(Command::Settle(record.lock), batch);
        self.machine.lease_record(number)
    }
}

fn matches(view: &LockView, filter: &Filter) -> bool {
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
