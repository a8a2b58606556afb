//! Tests of every protocol over real HTTP and TCP.

mod contract;
mod dialects;
mod doors;
mod native;
mod toy;
