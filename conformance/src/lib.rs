//! One conformance suite for all SDKs.
//!
//! A driver (see `sdks/conformance/PROTOCOL.md`) carries out a script's commands with its SDK. A proxy between the
//! driver and a real server causes faults. The suite judges by the server's history, the proxy's log and a fenced
//! resource. It never relies on a driver's clock, nor on a driver's report if one of the three recorded the same.

pub mod bug;
pub mod cluster;
pub mod driver;
pub mod flaw;
pub mod history;
pub mod lag;
pub mod link;
pub mod report;
pub mod resource;
pub mod run;
pub mod script;
pub mod seen;
pub mod server;
pub mod speak;
pub mod subject;
pub mod world;

/// The time limit of all operations without a specific limit.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);
