//! Who does the next round, who is woken for it, and how its answers are handed over.
//!
//! Three kinds of threads meet here. Those that ask put their question into the [`Inbox`]. Whoever has the writer,
//! which is in [`Lead`], takes what is there and does a round: the engine's thread, or a worker on a quiet server.
//! Answers for a worker's connections go into its [`Tray`]. Nobody looks anywhere by chance: whoever has something to
//! do was woken by a [`Bell`], and the simulation runs them exactly when their bells say so.
//!
//! What is promised, and checked in every order in which threads can meet (`sim/tests/rounds`):
//!
//! - nothing that was asked stays in the inbox while everybody sleeps, and no answer in a tray;
//! - there is one writer;
//! - a question is in the first round that begins after it was asked, unless a full batch was asked before it.
//!
//! Nothing here knows tokio, the engine's questions or what a round does. Everything shared comes from [`crate::sync`].

mod bell;
mod inbox;
mod lead;
mod tray;

pub(crate) use bell::Bell;
pub(crate) use inbox::{Inbox, Refused};
pub(crate) use lead::{Gathers, Habits, Lead, Round, Work};
pub(crate) use tray::Tray;
