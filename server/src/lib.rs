//! The engine, the store and the dialects.

pub mod app;
pub mod audit;
pub mod auth;
pub mod backup;
pub mod clock;
pub mod cluster;
mod complaint;
mod console;
mod content;
mod contract;
pub mod dialect;
pub mod door;
pub mod engine;
pub mod exposure;
pub mod http;
mod mac;
pub mod metrics;
mod operator;
#[doc(hidden)]
pub mod pace;
mod page;
mod past;
mod peer;
pub mod probe;
pub mod random;
pub mod runtime;
pub mod serve;
pub mod store;
mod sync;
pub mod trace;
pub mod webhook;
