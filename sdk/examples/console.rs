//! The Rust snippet that the web console shows for a lock, from `/console/take`.
//!
//! `cargo run -p leasehold --example console -- http://127.0.0.1:8080`

use std::time::Duration;

pub(crate) async fn take(url: &str) -> Result<(), leasehold::Error> {
    let client = leasehold::Client::builder(url).namespace("default").build()?;
    let lock = client.lock("nightly").ttl(Duration::from_secs(30)).wait(Duration::from_secs(60));
    lock.run(async |lease| write_with(lease.fencing_token()).await).await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn write_with(token: u64) {
    println!("written with token {token}");
}

#[tokio::main]
async fn main() -> Result<(), leasehold::Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8080".into());
    take(&url).await
}
