//! Changes to sessions.

use crate::arena::Slot;
use crate::lease::{Ending, Lease, Links, Membership};
use crate::session::{Session, SessionNumber, SessionRecord};
use crate::state::State;
use crate::time::Timestamp;

impl State {
    pub(crate) fn add_session(&mut self, record: &SessionRecord) {
        let owner = self.owners.retain(&record.owner, record.peer);
        let account = self.owners.accounts.retain(&record.owner.principal, record.peer);
        *self.n_sessions.entry(record.dialect).or_default() += 1;
        let slot = self.sessions.insert(Session {
            number: record.number,
            digest: record.digest,
            owner,
            account,
            dialect: record.dialect,
            ttl: record.ttl,
            opened_at: record.opened_at,
            deadline: record.deadline,
            ended: record.ended,
            credential: record.credential.clone(),
            leases: None,
            n_leases: 0,
        });
        self.session_changed(slot);
        self.session_numbers.insert(record.number, slot);
        self.session_digests.insert(record.digest, slot);
        self.next_session = self.next_session.max(SessionNumber(record.number.0 + 1));
        if record.ended.is_some() {
            self.ending.push_back(slot);
        } else {
            self.owners.accounts.get_mut(account).add_session(record.dialect);
            self.session_deadlines.set(slot, record.deadline);
        }
    }

    pub(super) fn keep_session(&mut self, slot: Slot<Session>, deadline: Timestamp) {
        self.sessions[slot].deadline = deadline;
        self.session_changed(slot);
        self.session_deadlines.set(slot, deadline);
    }

    pub(super) fn end_session(&mut self, slot: Slot<Session>, how: Ending, at: Timestamp) {
        let session = &mut self.sessions[slot];
        session.ended = Some(how);
        session.deadline = at;
        self.owners.accounts.get_mut(session.account).remove_session(session.dialect);
        self.session_changed(slot);
        self.session_deadlines.remove(slot);
        self.ending.push_back(slot);
    }

    pub(super) fn forget_session(&mut self, slot: Slot<Session>) {
        let session = self.sessions.remove(slot);
        self.session_changed(slot);
        self.session_numbers.remove(&session.number);
        self.session_digests.remove(&session.digest);
        self.owners.release(session.owner);
        self.owners.accounts.release(session.account);
        if let Some(n) = self.n_sessions.get_mut(&session.dialect) {
            *n -= 1;
        }
        self.n_sessions.retain(|_, n| *n > 0);
        // The session is the first, except when a journal is replayed, because then no sweep has run.
        self.ending.retain(|other| *other != slot);
    }

    pub(super) fn join_session(&mut self, session: Slot<Session>, slot: Slot<Lease>) {
        let is_share = self.is_share(&self.leases[slot]);
        let joined = &mut self.sessions[session];
        joined.n_leases += u32::from(!is_share);
        let after = joined.leases.replace(slot);
        if let Some(after) = after {
            self.links(after).before = Some(slot);
        }
        let links = Links { before: None, after };
        self.leases[slot].membership = Some(Box::new(Membership { session, links }));
    }

    pub(super) fn leave_session(&mut self, slot: Slot<Lease>) {
        let Some(membership) = self.leases[slot].membership.take() else { return };
        let Membership { session, links } = *membership;
        let is_share = self.is_share(&self.leases[slot]);
        let left = &mut self.sessions[session];
        left.n_leases -= u32::from(!is_share);
        match links.before {
            Some(before) => self.links(before).after = links.after,
            None => left.leases = links.after,
        }
        if let Some(after) = links.after {
            self.links(after).before = links.before;
        }
    }

    fn links(&mut self, slot: Slot<Lease>) -> &mut Links {
        match &mut self.leases[slot].membership {
            Some(membership) => &mut membership.links,
            None => panic!("a lease among a session's is in no session"),
        }
    }
}
