//! HTTP: connections, bodies and everything else the dialects share.

pub(crate) mod accept;
mod activity;
pub(crate) mod body;
pub(crate) mod forwarded;
mod request_id;

pub use accept::Options;
pub use forwarded::parse_network;
pub use ipnet::IpNet;
pub(crate) use request_id::echo_request_id;
