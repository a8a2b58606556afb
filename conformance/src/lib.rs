//! One suite for every SDK.
//!
//! A driver (see `sdks/conformance/PROTOCOL.md`) does with its SDK what a script tells it. Between it and a real server
//! is a proxy that breaks things. What is judged is what the server's history, the proxy and a fenced resource saw;
//! nothing here trusts a driver's clock, or its word where somebody else saw the same.

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

/// How long anything may take that has no bound of its own.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);
