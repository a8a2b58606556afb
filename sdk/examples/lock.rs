//! One lock: acquire it, work while holding it, release it.
//!
//! `cargo run -p leasehold --example lock -- http://127.0.0.1:8080`

use std::error::Error;
use std::time::Duration;

use leasehold::{Client, LockGuard};

/// Does work that only one process can do at a time, and returns the fencing token it used.
pub(crate) async fn demo(url: &str) -> Result<u64, Box<dyn Error>> {
    let client = Client::new(url)?;
    let request = client.lock("orders").ttl(Duration::from_secs(30)).wait(Duration::from_secs(60));
    let guard = request.acquire().await?;
    tokio::select! {
        // Polled first, so that after a pause the loss is noticed before any more work is done.
        biased;
        lost = guard.lost() => return Err(lost.into()),
        done = work(&guard) => done?,
    }
    let token = guard.fencing_token();
    guard.release().await?;
    Ok(token)
}

/// Checks the lock before every step, and sends the token with every write.
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
