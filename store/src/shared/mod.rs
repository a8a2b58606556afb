//! A store that the servers of a cluster share: one of them leads and writes, the others follow what it writes.
//!
//! Everything here is independent of the system that keeps the store. Such a system, for example etcd, implements the
//! traits of [`Backend`], in a folder of its own.

mod admin;
pub(crate) mod aide;
mod backend;
mod campaign;
mod census;
mod chair;
mod follower;
pub(crate) mod guard;
mod handover;
mod image;
mod init;
mod keeper;
mod look;
mod memory;
mod presence;
mod reading;
mod scribe;
mod seat;
pub(crate) mod snapshot;
mod store;
mod transfer;
pub(crate) mod value;
mod watch;

pub use admin::Operator;
pub use backend::*;
pub use guard::{Guard, Refusal, Tenure, Verdict};
pub use init::init;
pub use scribe::Snapshots;
pub use seat::{Compact, Options, SharedSeat};
pub use transfer::{Arrival, Checked, Departure, Site, check, restore};
