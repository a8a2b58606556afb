//! A driver whose client is written from the documents alone, in the plainest way, with a bug to choose.
//!
//! It shows two things: that the suite does not ask for more than the documents promise (without a bug, it passes), and
//! that each script can fail (with its bug, it does). It shares no deadline, renewal or retry with the Rust SDK, of
//! which it uses only the calls as they are on the wire.

mod desk;
mod hold;
mod proof;
mod retry;

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
