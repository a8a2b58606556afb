//! A driver with a client that is written from the documents alone, as simply as possible. It can have a deliberate
//! bug.
//!
//! It shows two things: that the suite does not require more than the documents promise, because the driver passes
//! without a bug, and that each script can fail, because it fails with its bug. The driver uses only the plain API
//! calls of the Rust SDK, not its deadlines, renewals or retries.

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
