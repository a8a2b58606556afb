//! The native calls, one file for each kind.
//!
//! One program, because each takes longer to build than its tests take to run.

mod direct;
mod events;
mod groups;
mod history;
mod locks;
mod operator;
mod queue;
mod restart;
