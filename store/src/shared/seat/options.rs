//! The settings of a node of a cluster.

use std::time::Duration;

use leasehold_core::Limits;

use crate::shared::scribe::Snapshots;
use crate::{Peering, Witness};

/// The interval between two removals of earlier values, and the minimum age of what is removed.
const COMPACT_EVERY: Duration = Duration::from_secs(60);

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
    /// How often earlier values are removed, if the system that keeps the store contains nothing else.
    pub compact_every: Duration,
    /// Who removes earlier values.
    pub compact: Compact,
    /// Whether it may lead even if its data directory does not contain how far the journal went.
    pub lead_without_memory: bool,
    /// Whether it only follows and never leads.
    pub never_lead: bool,
    /// Receives the state after each read, in tests.
    #[doc(hidden)]
    pub witness: Option<Witness>,
}

/// Who removes the earlier values that the system that keeps the store remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compact {
    /// The leader, as long as the system contains nothing else.
    Own,
    /// Not this cluster: the system itself, or an operator.
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
            compact_every: COMPACT_EVERY,
            compact: Compact::Own,
            lead_without_memory: false,
            never_lead: false,
            witness: None,
        }
    }
}
