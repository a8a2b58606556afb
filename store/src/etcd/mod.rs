//! A store that several machines share: a journal in etcd with one record per key, written by the leader. The leader is
//! the server that holds the leader key, called the seat in the code.
//!
//! etcd provides all agreement. Every write, and every response that writes nothing, depends on one transaction that
//! compares the leader key and the end of the journal. So a node that lost leadership without noticing can neither
//! change the state nor send a response. This requires no clock. etcd's leases only determine how soon another node can
//! take over.

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
