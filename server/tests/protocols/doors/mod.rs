//! Tests of the dialects for clients of other servers, one directory each.
//!
//! They are one program, because linking a test program takes longer than running its tests.

mod dav;
mod files;
mod lfs;
mod redis;
mod shown;
mod terraform;
