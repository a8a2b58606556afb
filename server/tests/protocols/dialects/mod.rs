//! Every dialect over real HTTP, one folder each.
//!
//! One program, because each takes longer to build than its tests take to run.

mod claims;
mod errors;
mod leases;
mod sticky;
