//! A store that several machines share: a journal in etcd, one record under each key, written by whoever has the seat.
//!
//! etcd is the only thing that agrees on anything. Whatever is written, and every answer that writes nothing, is one
//! transaction that compares who has the seat and where the journal ends, so that a node that lost the seat without
//! noticing can neither change nor answer anything. No clock is needed for that; etcd's leases only decide how soon a
//! seat becomes vacant.

mod admin;
mod aide;
mod campaign;
mod census;
mod chair;
mod cluster;
mod compaction;
mod follower;
mod guard;
mod handover;
mod image;
mod init;
mod keeper;
mod keys;
mod look;
mod memory;
mod presence;
mod reading;
mod scribe;
mod seat;
mod snapshot;
mod space;
mod store;
mod transfer;
mod value;
mod watch;

pub use admin::Operator;
pub use cluster::{Cluster, Remote};
pub use init::{connect, init, n_keys};
pub use scribe::Snapshots;
pub use seat::{Compact, EtcdSeat, Options};
pub use space::Watching;
pub use transfer::{Arrival, Checked, Departure, Site, check, restore};
