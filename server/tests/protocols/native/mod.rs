//! Tests of the native dialect, one file for each kind of call.
//!
//! They are one program, because linking a test program takes longer than running its tests.

mod direct;
mod events;
mod groups;
mod history;
mod locks;
mod operator;
mod queue;
mod restart;
