//! A copy of what lists show of every lock, kept beside the writer, so that searches take none of the writer's time.
//!
//! The writer hands over which locks have changed since it was last asked ([`Collect`]). What it hands over is durable,
//! like every answer. Searches and lists read only the copy. The copy is never stored. `lists.rs` keeps it up to date.

mod block;
mod collect;
mod counts;
mod listed;
mod model;
mod names;
mod owners;
mod query;
mod row;
mod search;
#[cfg(test)]
mod tests;
mod texts;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

pub(crate) use collect::{Collect, StopCollecting};
pub use counts::Counts;
pub(crate) use listed::ListNames;
pub(crate) use model::Model;
pub use query::{FoundLocks, LockQuery, Order, Place, SearchLocks, Stand};

/// The copy, and who uses it.
#[derive(Default)]
pub(super) struct Directory {
    pub(super) model: Arc<tokio::sync::Mutex<Model>>,
    pub(super) used_at: Mutex<Option<Instant>>,
    /// Whether a task keeps the copy up to date.
    pub(super) is_kept_up: AtomicBool,
}
