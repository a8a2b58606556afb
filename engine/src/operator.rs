//! What an operator looks up: what somebody has, sessions, maintenance.

use leasehold_auth::View;
use leasehold_core::{Group, LeaseRecord, NamespaceCount, SessionNumber, SessionRecord, Whose};

use super::batch::Batch;
use super::read::{LeasePage, Look, SCAN_MAX};
use super::writer::Writer;

/// Some of the leases of somebody that are active or waiting, in all namespaces and dialects.
#[derive(Clone, Debug)]
pub struct ListHoldings {
    /// Whose leases.
    pub whose: Whose,
    /// Where to go on.
    pub from: usize,
    /// What its reader may see.
    pub view: View,
}

/// Some of the sessions, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct ListSessions {
    /// Where to go on.
    pub from: SessionNumber,
    /// Most to return.
    pub n_max: usize,
}

/// Is maintenance on?
#[derive(Clone, Copy, Debug)]
pub struct ReadMaintenance;

/// How much there is in each namespace.
#[derive(Clone, Copy, Debug)]
pub struct CountNamespaces {
    /// Most to tell of one by one: those with the most leases.
    pub n_max: usize,
}

/// How much there is in each of the namespaces with the most leases, and in all others.
#[derive(Clone, Debug, Default)]
pub struct NamespaceCounts {
    /// In the order of their names.
    pub listed: Vec<NamespaceCount>,
    /// How many others there are.
    pub n_others: usize,
    /// The leases in those.
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
        // Leases that wait together end together: whoever ends one ends all.
        let is_shown = |lease: &LeaseRecord| {
            let group = lease.group.filter(|_| lease.phase.is_queued());
            let others = group.into_iter().flat_map(Group::numbers);
            let mut others = others.filter_map(|number| writer.machine.lease_record(number));
            self.view.shows(&lease.lock) && others.all(|other| self.view.shows(&other.lock))
        };
        let mut leases: Vec<_> = leases.into_iter().filter(is_shown).collect();
        // The order in which they were found depends on what others have.
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
