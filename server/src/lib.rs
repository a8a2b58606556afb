//! The engine, the store and the dialects.

pub mod backup;
pub mod cluster;
mod console;
#[cfg(test)]
mod contract_tests;
pub mod door;
pub mod host;
mod peer;
mod reload;
mod routes;
pub mod serve;
pub mod webhook;

use leasehold_content as content;
pub use leasehold_dialects as dialect;
pub use leasehold_dialects::app;
pub use leasehold_http as http;
pub use leasehold_http::{audit, metrics, trace};
