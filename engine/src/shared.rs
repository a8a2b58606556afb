//! The state shared by the handles and the writer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use leasehold_base::clock::Instant;
use leasehold_base::sync::lock;
use leasehold_core::LeaseNumber;
use tokio::sync::watch;

use super::mailbox::Desks;
use super::message::{Asked, Ticket};
use super::rounds::Inbox;
use leasehold_store::Leader;

/// With this many queued requests, the engine's thread is woken even if the worker has other work first.
const N_ASKED_AT_ONCE: usize = 32;

pub(super) struct Shared {
    pub(super) inbox: Arc<Inbox<Asked>>,
    /// Requests whose clients have disconnected, and grants that were not delivered.
    gone: Mutex<Vec<Gone>>,
    next_ticket: AtomicU64,
    is_stopping: AtomicBool,
    /// Another server leads, or none does.
    is_following: AtomicBool,
    /// Lock time of the last round.
    pub(super) alive_at: AtomicU64,
    /// Lock time at which the store last confirmed that no other server has taken over.
    pub(super) confirmed_at: AtomicU64,
    /// On a follower, the instant at which it had last read all records.
    pub(super) whole_at: Mutex<Option<Instant>>,
    whereabouts: watch::Sender<Whereabouts>,
    /// Whether events can be late.
    pub(super) stale: watch::Sender<bool>,
    /// Whether requests cannot be answered here: another server leads, or the store has not confirmed this leader for
    /// the length of its lease.
    is_unsure: watch::Sender<bool>,
    pub(super) stopped: watch::Sender<bool>,
    desks: Mutex<Desks>,
}

/// Stops the engine when the last handle is dropped.
pub(super) struct Asking(pub(super) Arc<Shared>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The location of the leader.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Whereabouts {
    /// This process leads.
    pub is_here: bool,
    /// The other server that leads; `None` if this process leads or the leader is unknown.
    pub leader: Option<Arc<Leader>>,
}

/// A client that has disconnected.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gone {
    /// The client that sent this request.
    Ticket(Ticket),
    /// The client that was granted this lease, and the epoch of that grant. A later epoch might have reported the lease
    /// to the client again.
    Grant(LeaseNumber, u64),
}

impl Shared {
    pub(super) fn new(n_asked_max: usize) -> Self {
        Self {
            inbox: Arc::new(Inbox::new(n_asked_max, N_ASKED_AT_ONCE)),
            gone: Mutex::default(),
            next_ticket: AtomicU64::new(1),
            is_stopping: AtomicBool::new(false),
            is_following: AtomicBool::new(false),
            alive_at: AtomicU64::new(0),
            confirmed_at: AtomicU64::new(0),
            whole_at: Mutex::default(),
            whereabouts: watch::Sender::new(Whereabouts { is_here: true, leader: None }),
            stale: watch::Sender::new(false),
            is_unsure: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            desks: Mutex::default(),
        }
    }

    #[inline]
    pub(super) fn ticket(&self) -> Ticket {
        Ticket(self.next_ticket.fetch_add(1, Relaxed))
    }

    pub(super) fn take_gone(&self) -> Vec<Gone> {
        std::mem::take(&mut *lock(&self.gone))
    }

    /// Adds a disconnect for the next round. [`Self::is_gone`] also makes sure that there is one.
    pub(super) fn add_gone(&self, gone: Gone) {
        lock(&self.gone).push(gone);
    }

    /// Reports a disconnect and wakes the engine's thread.
    pub(super) fn is_gone(&self, gone: Gone) {
        self.add_gone(gone);
        self.inbox.engine.ring();
    }

    pub(super) fn has_gone(&self) -> bool {
        !lock(&self.gone).is_empty()
    }

    #[inline]
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(SeqCst)
    }

    #[inline]
    pub(super) fn is_following(&self) -> bool {
        self.is_following.load(SeqCst)
    }

    /// From now on, rejects requests because another server leads. Returns the queued requests.
    pub(super) fn follow(&self) -> Vec<Asked> {
        self.is_following.store(true, SeqCst);
        self.is_unsure(true);
        self.whereabouts.send_replace(Whereabouts::default());
        self.inbox.close()
    }

    /// From now on, accepts requests.
    pub(super) fn lead(&self) {
        // Disconnects from before belong to an earlier epoch.
        drop(self.take_gone());
        self.is_following.store(false, SeqCst);
        self.is_unsure(false);
        self.inbox.open();
        self.whereabouts.send_replace(Whereabouts { is_here: true, leader: None });
    }

    pub(super) fn is_unsure(&self, is_unsure: bool) {
        self.is_unsure.send_if_modified(|was| std::mem::replace(was, is_unsure) != is_unsure);
    }

    /// Returns when requests cannot be answered here.
    pub(super) async fn unsure(&self) {
        let mut is_unsure = self.is_unsure.subscribe();
        // Cannot fail, because the sender is in `self`.
        let _ = is_unsure.wait_for(|is_unsure| *is_unsure).await;
    }

    /// Sets the server that leads, as far as known.
    pub(super) fn led_by(&self, leader: Option<Leader>) {
        self.whereabouts.send_if_modified(|known| {
            let is_new = known.leader.as_deref() != leader.as_ref();
            if is_new {
                known.leader = leader.map(Arc::new);
            }
            is_new
        });
    }

    pub(super) fn whereabouts(&self) -> watch::Receiver<Whereabouts> {
        self.whereabouts.subscribe()
    }

    pub(super) fn stop(&self) {
        self.is_stopping.store(true, SeqCst);
        self.inbox.engine.ring();
    }

    pub(super) fn desks(&self) -> MutexGuard<'_, Desks> {
        lock(&self.desks)
    }
}
