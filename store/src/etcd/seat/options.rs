//! The settings of a node of a cluster.

use std::time::Duration;

use leasehold_core::Limits;

use crate::etcd::compaction;
use crate::etcd::scribe::Snapshots;
use crate::{Peering, Witness};

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name, which must be unique in the cluster.
    pub node: Box<str>,
    /// The URL at which clients reach the node.
    pub address: Box<str>,
    /// The address at which the other servers reach the node. `None`: they cannot, and the node is not listed.
    pub peering: Option<Peering>,
    /// The limits of the machine.
    pub limits: Limits,
    /// When snapshots are taken.
    pub snapshots: Snapshots,
    /// How often etcd is compacted, if it contains no other keys.
    pub compact_every: Duration,
    /// Whether this server compacts etcd.
    pub compact: Compact,
    /// Whether it may lead even if its data directory does not contain how far the journal went.
    pub lead_without_memory: bool,
    /// Whether it only follows and never leads.
    pub never_lead: bool,
    /// Receives the state after each read, in tests.
    #[doc(hidden)]
    pub witness: Option<Witness>,
}

/// Who compacts etcd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compact {
    /// The leader, as long as etcd contains no other keys.
    Own,
    /// Not this cluster: etcd compacts itself, or an operator does it.
    Never,
}

impl Options {
    /// Returns the default settings for a node of this name that clients reach at `address`.
    pub fn new(node: &str, address: &str, limits: Limits) -> Self {
        Self {
            node: node.into(),
            address: address.into(),
            peering: None,
            limits,
            snapshots: Snapshots::default(),
            compact_every: compaction::EVERY,
            compact: Compact::Own,
            lead_without_memory: false,
            never_lead: false,
            witness: None,
        }
    }
}
