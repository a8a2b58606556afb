//! Lists for operators: all leases of one owner, and all sessions.

use crate::lease::{Lease, LeaseRecord, Phase};
use crate::machine::Machine;
use crate::session::{SessionNumber, SessionRecord};
use crate::view;

/// A filter for a list of leases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The leases of every owner with this instance.
    Owner(Box<str>),
    /// The leases of every owner with this principal.
    Principal(Box<str>),
    /// The leases of this session.
    Session(SessionNumber),
    /// All active and waiting leases.
    All,
    /// All waiting leases.
    Waiting,
}

impl Machine {
    /// Returns the active and waiting leases that match `whose` among the next `n_seen_max` leases from slot `from` on,
    /// and the slot to continue at. The order is arbitrary but stable.
    pub fn leases_of(
        &self,
        whose: &Whose,
        from: usize,
        n_seen_max: usize,
    ) -> (Vec<LeaseRecord>, Option<usize>) {
        let mut leases = self.state.leases.iter_from(from);
        let seen = leases.by_ref().take(n_seen_max).filter(|(_, lease)| self.is_of(lease, whose));
        let found = seen.map(|(_, lease)| view::lease_record(&self.state, lease)).collect();
        (found, leases.next().map(|(slot, _)| slot.index()))
    }

    fn is_of(&self, lease: &Lease, whose: &Whose) -> bool {
        let owner = self.state.owner(lease.owner);
        let is_theirs = match whose {
            Whose::Owner(instance) => *owner.instance == **instance,
            Whose::Principal(principal) => *owner.principal == **principal,
            Whose::Session(number) => {
                lease.session().is_some_and(|slot| self.state.sessions[slot].number == *number)
            }
            Whose::All => true,
            Whose::Waiting => lease.phase.is_queued(),
        };
        is_theirs && !matches!(lease.phase, Phase::Ended(_))
    }

    /// Returns the sessions that have not ended, in order of number, with the number of their leases without shares.
    pub fn sessions(&self, from: SessionNumber) -> impl Iterator<Item = (SessionRecord, u32)> + '_ {
        let sessions = self.state.session_numbers.range(from..);
        let sessions = sessions.map(|(_, slot)| &self.state.sessions[*slot]);
        let live = sessions.filter(|session| session.ending(self.state.now).is_none());
        live.map(|session| (view::session_record(&self.state, session), session.n_leases))
    }
}
