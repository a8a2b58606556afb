//! Where chance begins.

/// The seed of a test that does things by chance, printed so that a failure can be repeated. It is the same each
/// time, so that a test fails because of what was changed and not by bad luck; this variable names another, and
/// `scripts/soak` does so with new ones.
#[expect(clippy::print_stdout, reason = "a failure is repeated with it")]
pub fn seed(variable: &str) -> u64 {
    let told = std::env::var(variable).ok().and_then(|seed| seed.parse().ok());
    let seed = told.unwrap_or(1);
    println!("{variable}={seed}");
    seed
}
