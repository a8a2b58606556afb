//! The example in docs/reference/sdk.md: work that only one process can do at a time, written with the fencing token.
//!
//! `cargo run -p leasehold --example orders -- http://127.0.0.1:8080`

use std::time::Duration;

use leasehold::{Client, Error};

pub(crate) async fn orders(url: &str) -> Result<u64, Error> {
    let client = Client::builder(url).namespace("shop").build()?;
    let lock = client.lock("orders").ttl(Duration::from_secs(30)).wait(Duration::from_secs(60));
    lock.run(async |lease| write_with(lease.fencing_token()).await).await
}

async fn write_with(token: u64) -> u64 {
    token
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8080".into());
    println!("written with token {}", orders(&url).await?);
    Ok(())
}
