//! The targets are in `tests/`. What they ask is a server without a socket.

pub use leasehold_testkit::Bare;
