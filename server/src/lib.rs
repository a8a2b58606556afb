//! The engine, the store and the dialects.

pub mod app;
pub mod backup;
pub mod clock;
mod contract;
pub mod dialect;
pub mod engine;
pub mod http;
pub mod metrics;
pub mod random;
pub mod serve;
pub mod store;
mod sync;
