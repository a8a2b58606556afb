//! The writer, the stores under it, and anything at all as input.

mod damage;
mod engine;
mod formats;
mod fuzz;
mod notes;
mod race;
#[path = "../../../core/tests/rules/model/step.rs"]
mod step;
mod store;
