//! The HTTP side of a server: listeners, TLS, connections, bodies, and what is counted, logged and audited.
//!
//! It knows none of the protocols that are spoken over it: a [`Handler`] answers requests and conversations.

pub mod accept;
mod activity;
mod answer;
pub mod answers;
mod aside;
pub mod audit;
pub mod body;
pub mod client;
mod connection;
mod conversation;
mod dialect_names;
mod file;
pub mod forwarded;
mod frames;
mod handler;
pub mod handshakes;
mod head;
pub mod html;
mod intake;
mod line;
mod lingering;
mod listen;
pub mod media;
pub mod metrics;
pub mod mistake;
pub mod opening;
mod options;
mod outgoing;
pub mod pieces;
pub mod places;
mod proxy_header;
pub mod request;
mod socket;
pub mod spelled;
mod streams;
pub mod tls;
pub mod trace;
mod tracked;
mod unix;
mod wire;
pub mod worker;

pub use answer::json;
pub use connection::{PING_EVERY, bytes_per_request};
pub use conversation::{Conversation, Heard};
pub use dialect_names::DialectNames;
pub use file::stream;
pub use handler::{Handler, Passage};
pub use ipnet::IpNet;
pub use leasehold_auth::parse_network;
pub use line::Line;
pub use listen::Listen;
pub use options::Options;
pub use streams::Stream;
pub use tls::Files as TlsFiles;
