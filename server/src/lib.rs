//! The engine, the store and the dialects.

pub mod app;
pub mod audit;
pub mod backup;
pub mod cluster;
mod console;
mod content;
mod contract;
pub mod dialect;
pub mod door;
pub mod engine;
pub mod http;
pub mod metrics;
mod operator;
mod page;
mod peer;
mod reload;
pub mod serve;
pub mod trace;
pub mod webhook;

// The rounds of the engine name these by short paths, which a test with loom defines in another way.
use leasehold_base::sync;
