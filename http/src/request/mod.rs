//! What is known of a request beside its content, the checks of its form, and its answer.

mod answer;
mod arrival;
pub mod browser;
pub mod cors;
pub mod form;
mod link;
mod methods;
pub mod protection;
mod traceparent;
mod unless_own;
mod visitor;

pub use answer::Answer;
pub use arrival::{Arrival, Ids, RequestId, X_REQUEST_ID};
pub use browser::is_sent;
pub use link::Link;
pub use methods::{NOT_ALLOWED, named};
pub use traceparent::TraceContext;
pub use unless_own::UnlessOwn;
pub use visitor::{Peer, Visitor};
