//! Many locks with one keep-alive: a worker that acquires as many shards as are free.
//!
//! `cargo run -p leasehold --example session -- http://127.0.0.1:8080`

use std::error::Error;
use std::time::Duration;

use leasehold::{Client, LockGuard};

/// Acquires every free shard, works on them, and returns how many it acquired.
pub(crate) async fn demo(url: &str) -> Result<usize, Box<dyn Error>> {
    let client = Client::new(url)?;
    let session = client.session().ttl(Duration::from_secs(30)).open().await?;
    let mut shards: Vec<LockGuard> = Vec::new();
    for n in 0..8 {
        match session.lock(format!("shard-{n}")).acquire().await {
            Ok(shard) => shards.push(shard),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
    session.check()?;
    let n_shards = shards.len();
    // Releases all of them in one request.
    session.close().await?;
    Ok(n_shards)
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8080".into());
    println!("worked on {} shards", demo(&url).await?);
    Ok(())
}
