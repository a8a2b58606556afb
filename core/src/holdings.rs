//! What an operator wants to see: everything one owner has, and all sessions.

use crate::lease::{Lease, LeaseRecord, Phase};
use crate::machine::Machine;
use crate::session::{SessionNumber, SessionRecord};
use crate::view;

/// Whose leases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Those of every owner of this name (its instance).
    Owner(Box<str>),
    /// Those of every owner of this principal.
    Principal(Box<str>),
    /// Those of this session.
    Session(SessionNumber),
    /// All of them.
    Everybody,
    /// All that wait.
    Waiting,
}

impl Machine {
    /// The leases of somebody that are active or waiting, among `n_seen_max` from the `from`th place on; and where to
    /// go
    /// on. In no particular order but always the same.
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
            Whose::Everybody => true,
            Whose::Waiting => lease.phase.is_queued(),
        };
        is_theirs && !matches!(lease.phase, Phase::Ended(_))
    }

    /// Sessions that are not over, from this number on in the order of their numbers, with how many leases each has.
    /// Does not count shares.
    pub fn sessions(&self, from: SessionNumber) -> impl Iterator<Item = (SessionRecord, u32)> + '_ {
        let sessions = self.state.session_numbers.range(from..);
        let sessions = sessions.map(|(_, slot)| &self.state.sessions[*slot]);
        let live = sessions.filter(|session| session.ending(self.state.now).is_none());
        live.map(|session| (view::session_record(&self.state, session), session.n_leases))
    }
}
