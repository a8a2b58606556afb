//! Models of design rules. All their states are visited: with the whole rule the properties hold, and without any part
//! of the rule there is a counterexample.

mod guard;
mod lock_time;
mod node_time;
mod seat;
