//! Tests of connections: how they start, what they can use up, how they end.

mod bounds;
mod connections;
mod delivery;
mod front;
mod transport;
