//! Connections: how they start, what they may cost, how they end.

mod bounds;
mod connections;
mod delivery;
mod front;
mod transport;
