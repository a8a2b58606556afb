//! The Rust client against a server in this process.

mod blocking;
mod calls;
mod election;
mod events;
mod examples;
mod failover;
mod gate;
mod group;
mod lease;
mod transport;
mod unwanted;
