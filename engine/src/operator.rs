//! Reads for operators: the leases of a principal or owner, sessions, maintenance mode, namespaces.

use leasehold_auth::View;
use leasehold_core::{Group, LeaseRecord, NamespaceCount, SessionNumber, SessionRecord, Whose};

use super::batch::Batch;
use super::read::{LeasePage, Look, SCAN_MAX};
use super::writer::Writer;

/// Lists active and waiting leases of one client or all, in all namespaces and dialects, page by page.
#[derive(Clone, Debug)]
pub struct ListHoldings {
    /// The clients whose leases are listed.
    pub whose: Whose,
    /// Where the page starts.
    pub from: usize,
    /// The locks that the caller can see.
    pub view: View,
}

/// Lists sessions by their numbers, page by page.
#[derive(Clone, Debug)]
pub struct ListSessions {
    /// Where the page starts.
    pub from: SessionNumber,
    /// Maximum sessions to return.
    pub n_max: usize,
}

/// Reads whether maintenance mode is on.
#[derive(Clone, Copy, Debug)]
pub struct ReadMaintenance;

/// Counts the contents of each namespace.
#[derive(Clone, Copy, Debug)]
pub struct CountNamespaces {
    /// Maximum namespaces to return separately: those with the most leases.
    pub n_max: usize,
}

/// The contents of the namespaces with the most leases, and a total for all others.
#[derive(Clone, Debug, Default)]
pub struct NamespaceCounts {
    /// Sorted by name.
    pub listed: Vec<NamespaceCount>,
    /// The number of other namespaces.
    pub n_others: usize,
    /// The number of leases in the other namespaces.
    pub n_leases_of_others: u64,
}

impl Look for CountNamespaces {
    type Found = NamespaceCounts;

    fn look(self, writer: &mut Writer, _: &mut Batch) -> NamespaceCounts {
        let (listed, n_others, n_leases_of_others) = writer.machine.namespaces(self.n_max);
        NamespaceCounts { listed, n_others, n_leases_of_others }
    }
}

impl Look for ListHoldings {
    type Found = LeasePage;

    fn look(self, writer: &mut Writer, _: &mut Batch) -> LeasePage {
        let (leases, next) = writer.machine.leases_of(&self.whose, self.from, SCAN_MAX);
        // Leases that wait as a group end together, so a caller that can revoke one can see all of them.
        let is_shown = |lease: &LeaseRecord| {
            let group = lease.group.filter(|_| lease.phase.is_queued());
            let others = group.into_iter().flat_map(Group::numbers);
            let mut others = others.filter_map(|number| writer.machine.lease_record(number));
            self.view.shows(&lease.lock) && others.all(|other| self.view.shows(&other.lock))
        };
        let mut leases: Vec<_> = leases.into_iter().filter(is_shown).collect();
        // Sorted, because the order in which they were found reveals something about other clients' leases.
        leases.sort_unstable_by_key(|lease| lease.number);
        LeasePage { leases, next }
    }
}

impl Look for ListSessions {
    type Found = Vec<(SessionRecord, u32)>;

    fn look(self, writer: &mut Writer, _: &mut Batch) -> Self::Found {
        writer.machine.sessions(self.from).take(self.n_max.min(SCAN_MAX)).collect()
    }
}

impl Look for ReadMaintenance {
    type Found = bool;

    fn look(self, writer: &mut Writer, _: &mut Batch) -> bool {
        writer.machine.is_in_maintenance()
    }
}
