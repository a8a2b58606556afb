//! The seeds of random tests.

/// Returns the seed of a random test, and prints it so that a failure can be repeated. The seed is the same each time,
/// so that a test fails because of a change and not by bad luck. This variable sets another seed, which `scripts/soak`
/// does with new ones.
#[expect(clippy::print_stdout, reason = "a failure is repeated with it")]
pub fn seed(variable: &str) -> u64 {
    let told = std::env::var(variable).ok().and_then(|seed| seed.parse().ok());
    let seed = told.unwrap_or(1);
    println!("{variable}={seed}");
    seed
}
