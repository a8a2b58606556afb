//! Tests of every dialect over real HTTP, one directory each.
//!
//! They are one program, because linking a test program takes longer than running its tests.

mod claims;
mod errors;
mod leases;
mod sticky;
