//! Tests of the engine, of the stores below it, and of random input.

mod damage;
mod engine;
mod formats;
mod fuzz;
mod notes;
mod race;
mod shared;
#[path = "../../../core/tests/rules/model/step.rs"]
mod step;
mod store;
