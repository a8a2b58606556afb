//! The only place that draws random numbers.

/// Bytes nobody can guess. A machine that has none to give cannot run a lock server.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        panic!("the system gives no random numbers: {error}");
    }
    bytes
}
