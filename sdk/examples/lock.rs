//! One lock: take it, work while it is ours, give it back.
//!
//! `cargo run -p leasehold --example lock -- http://127.0.0.1:8080`

use std::error::Error;
use std::time::Duration;

use leasehold::{Client, LockGuard};

/// Does something that only one may do at a time, and tells with which token.
pub(crate) async fn demo(url: &str) -> Result<u64, Box<dyn Error>> {
    let client = Client::new(url)?;
    let request = client.lock("orders").ttl(Duration::from_secs(30)).wait(Duration::from_secs(60));
    let guard = request.acquire().await?;
    tokio::select! {
        // First, so that after a pause nothing else is done before.
        biased;
        lost = guard.lost() => return Err(lost.into()),
        done = work(&guard) => done?,
    }
    let token = guard.fencing_token();
    guard.release().await?;
    Ok(token)
}

/// Looks before every step, and sends the token along with whatever it writes.
async fn work(guard: &LockGuard) -> Result<(), Box<dyn Error>> {
    for _ in 0..3 {
        guard.check()?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8080".into());
    println!("done, with token {}", demo(&url).await?);
    Ok(())
}
