//! Judges recorded histories of locks. Each module checks one promise.
//!
//! The simulation, `leasehold load`, the tests against real servers and the conformance suite record histories in
//! different forms and clocks. Each translates its records to the few calls of this crate, so that all of them mean
//! the same by each promise. The crate shares no code with the server, so an error in the server cannot hide itself.
//!
//! Only a certain violation is reported. A caller that does not know when something happened has to record what is
//! certain: a client holds a lock from the response to its acquire until it sends the release, or until its deadline.

mod exclusion;
mod fence;
mod linear;
mod tokens;

pub use exclusion::{Conflict, Exclusion, Mode};
pub use fence::{Fence, Writer};
pub use linear::{Operation, What, is_linearizable};
pub use tokens::Tokens;
