//! How a node takes part in a seat.

use std::time::Duration;

use leasehold_core::Limits;

use crate::etcd::compaction;
use crate::etcd::scribe::Snapshots;
use crate::{Peering, Witness};

/// How a node takes part.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, which no other node has.
    pub node: Box<str>,
    /// Where clients reach it.
    pub address: Box<str>,
    /// Where the other servers reach it; `None`: they cannot, and it is not listed among them.
    pub peering: Option<Peering>,
    /// What the machine allows.
    pub limits: Limits,
    /// When snapshots are taken.
    pub snapshots: Snapshots,
    /// How often etcd is to forget what keys were, if nobody else uses it.
    pub compact_every: Duration,
    /// Whether that is to be done at all.
    pub compact: Compact,
    /// It may lead although its folder does not remember how far the journal went.
    pub lead_without_memory: bool,
    /// It only ever follows.
    pub never_lead: bool,
    /// Who is shown what was read.
    #[doc(hidden)]
    pub witness: Option<Witness>,
}

/// Who has etcd forget what keys were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compact {
    /// Whoever leads, as long as nobody else has keys in etcd.
    Own,
    /// Somebody else.
    Never,
}

impl Options {
    /// A node of this name that clients reach there, with the usual bounds.
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
