//! Rules of the design as models, every state of which is visited: with all of a rule they hold, and without any part
//! of it a counterexample is found.

mod guard;
mod lock_time;
mod node_time;
mod seat;
