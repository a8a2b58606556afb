//! What clients of other servers come through, one folder each.
//!
//! One program, because each takes longer to build than its tests take to run.

mod dav;
mod files;
mod lfs;
mod redis;
mod shown;
mod terraform;
