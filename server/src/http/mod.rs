//! HTTP: connections, bodies and everything else the dialects share.

pub(crate) mod accept;
mod activity;
pub(crate) mod body;
mod request_id;

pub use accept::Options;
pub(crate) use request_id::echo_request_id;
