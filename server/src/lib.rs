//! The engine, the store and the dialects.

pub mod app;
pub mod backup;
pub mod cluster;
mod console;
mod contract;
pub mod dialect;
pub mod door;
mod operator;
mod page;
mod peer;
mod reload;
pub mod serve;
pub mod webhook;

use leasehold_content as content;
pub use leasehold_http as http;
pub use leasehold_http::{audit, metrics, trace};
