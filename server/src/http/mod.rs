//! HTTP: connections, bodies and everything else the dialects share.

pub(crate) mod accept;
mod activity;
mod answer;
pub(crate) mod answers;
pub(crate) mod body;
mod connection;
pub(crate) mod forwarded;
mod options;
pub(crate) mod pieces;
mod request_id;
pub(crate) mod worker;

pub(crate) use answer::json;
pub use forwarded::parse_network;
pub use ipnet::IpNet;
pub use options::Options;
pub(crate) use request_id::{X_REQUEST_ID, echo_request_id};
