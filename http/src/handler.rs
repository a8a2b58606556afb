//! What the connections call: the server's answers to requests and to conversations of other protocols.

use std::time::Duration;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use axum::http::Request;

use super::{Conversation, Line, Options};
use crate::request::{Answer, Visitor};

/// Answers everything that comes over connections. One per thread, and cheap to clone.
pub trait Handler: Clone + Send + Sync + 'static {
    /// A protocol that is not HTTP, and has listeners of its own.
    type Protocol: Copy + Send + Sync + 'static;

    /// Returns the limits of connections.
    fn options(&self) -> &Options;

    /// Answers one HTTP request.
    fn answer<B>(
        &self,
        visitor: Visitor,
        request: Request<B>,
    ) -> impl Future<Output = Answer> + Send
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Sync + 'static;

    /// Serves a connection of another protocol until it ends.
    fn converse(
        &self,
        protocol: Self::Protocol,
        conversation: Conversation,
    ) -> impl Future<Output = ()> + Send;

    /// Returns how long a connection of this protocol can be silent; `None` for no limit.
    fn idle_timeout(&self, protocol: Self::Protocol) -> Option<Duration>;

    /// Forwards a connection to the leader of a cluster, if that is another server; `None` without a cluster.
    fn pass_on(
        &self,
        protocol: Self::Protocol,
        visitor: &Visitor,
        line: &mut Line,
    ) -> Option<impl Future<Output = Passage> + Send>;

    /// Returns the client and the protocol of a connection that another server of the cluster forwards with this first
    /// line. `None` if this server does not lead, or the line is not from another server.
    fn forwarded(&self, first_line: &[u8]) -> Option<(Visitor, Self::Protocol)>;
}

/// How forwarding a connection ended.
pub enum Passage {
    /// The connection is to be served here: this server leads, or there is no leader.
    Here,
    /// The connection has ended.
    Over,
}
