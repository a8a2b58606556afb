//! HTTP: connections, bodies and everything else the dialects share.

pub(crate) mod accept;
mod activity;
mod answer;
pub(crate) mod answers;
mod aside;
pub(crate) mod body;
mod connection;
mod conversation;
pub(crate) mod forwarded;
pub(crate) mod handshakes;
pub(crate) mod html;
mod line;
mod listen;
pub(crate) mod media;
pub(crate) mod mistake;
pub(crate) mod opening;
mod options;
mod outgoing;
pub(crate) mod pieces;
pub(crate) mod places;
mod proxy_header;
mod socket;
pub(crate) mod spelled;
pub(crate) mod tls;
mod unix;
mod wire;
pub(crate) mod worker;

pub(crate) use answer::json;
pub use conversation::Conversation;
pub use forwarded::parse_network;
pub use ipnet::IpNet;
pub use listen::Listen;
pub use options::Options;
pub use tls::Files as TlsFiles;
