//! Tests of the rules: scenarios, a reference model, and deliberate bugs.

mod absorbing;
mod collecting;
mod forgetting;
mod model;
mod mutants;
mod notes;
mod principal_share;
mod quota;
mod reference;
mod scenario;
mod scenarios;
mod shares;
