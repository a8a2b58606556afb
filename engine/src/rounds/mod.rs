//! Decides which thread does the next round, wakes it, and hands over the replies.
//!
//! Three kinds of threads meet here. Threads with requests put them into the [`Inbox`]. The engine's thread, or a
//! worker on a quiet server, locks the writer in [`Lead`] and does a round with the queued requests. The replies for a
//! worker's connections go into its [`Tray`]. No thread polls: each is woken by a [`Bell`], and the simulation runs a
//! thread exactly when its bell says so.
//!
//! Guarantees, checked for every interleaving of the threads (`sim/tests/rounds`):
//!
//! - while all threads sleep, no request stays in the inbox and no reply in a tray;
//! - there is one writer;
//! - a request is processed in the first round that starts after it was queued, unless a full batch was queued before
//!   it.
//!
//! This module does not depend on tokio, on the request types, or on what a round does. Its synchronization types come
//! from [`crate::sync`].

mod bell;
mod inbox;
mod lead;
mod tray;

pub(crate) use bell::Bell;
pub(crate) use inbox::{Inbox, Refused};
pub(crate) use lead::{Gathers, Habits, Lead, Round, Work};
pub(crate) use tray::Tray;
