//! The driver of the Rust SDK: see `sdks/conformance/PROTOCOL.md`.

mod desk;
mod lease;

use std::sync::Arc;

use desk::Desk;
use leasehold_conformance::speak::speak;

#[tokio::main]
async fn main() {
    let desk = Arc::new(Desk::default());
    speak(move |command| {
        let desk = desk.clone();
        async move { desk.obey(&command).await }
    })
    .await
}
