//! What is known of a request beside its content, and its answer.

mod answer;
mod arrival;
mod link;
pub mod protection;
mod traceparent;
mod visitor;

pub use answer::Answer;
pub use arrival::{Arrival, Ids, RequestId, X_REQUEST_ID};
pub use link::Link;
pub use traceparent::TraceContext;
pub use visitor::{Peer, Visitor};
