//! The connection from a node to etcd. It passes the calls of the node's store to the world, which decides when to
//! respond.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_base::pace::Pace;

use super::thread::{Thread, lock};
use crate::etcd::{Answered, Request, Wire};

/// The number of etcd members from a node's point of view.
const N_MEMBERS: usize = 3;

/// The connection of one process.
#[derive(Default)]
pub(super) struct Line {
    is_rung: AtomicBool,
    waits: Mutex<Option<Arc<Thread>>>,
}

impl Line {
    /// Notifies the node that a watched key has changed, or might have.
    pub(super) fn ring(&self) {
        self.is_rung.store(true, SeqCst);
        lock(&self.waits).iter().for_each(|thread| thread.wake());
    }
}

impl Wire for Line {
    fn ask(&self, request: Request) -> Answered {
        Thread::ask(request)
    }

    fn n_members(&self) -> usize {
        N_MEMBERS
    }

    fn wait(&self, patience: Duration) {
        let Some(thread) = Thread::current() else { return };
        *lock(&self.waits) = Some(thread.clone());
        if !self.is_rung.swap(false, SeqCst) {
            thread.pace().park(patience);
            self.is_rung.store(false, SeqCst);
        }
    }
}
