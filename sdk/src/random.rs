//! Unique names, and pauses with jitter.

use std::time::Duration;

/// Returns a new request id.
pub(crate) fn request_id() -> String {
    hex(&bytes::<16>())
}

/// Returns an owner id that is unique to this client.
pub(crate) fn owner() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    // The server accepts owner ids of up to 256 bytes.
    let host: String = host.chars().take(60).collect();
    format!("{host}-{}-{}", std::process::id(), hex(&bytes::<4>()))
}

/// Returns a random duration between half of `pause` and all of it.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let fraction = f64::from(u32::from_le_bytes(bytes())) / f64::from(u32::MAX);
    pause.mul_f64(0.5 + 0.5 * fraction)
}

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
