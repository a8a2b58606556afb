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
pub mod http;
pub mod metrics;
mod operator;
mod page;
mod peer;
mod reload;
pub mod serve;
pub mod trace;
pub mod webhook;
