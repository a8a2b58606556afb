//! Two rules of the design as models, every state of which is visited: with both halves of a rule they hold,
//! and without either half a counterexample is found.

mod guard;
mod lock_time;
