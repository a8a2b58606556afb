//! A fencing gate that survives restarts: it stores the token next to the data, in the same transaction.
//!
//! `cargo run -p leasehold --example fenced_sqlite -- http://127.0.0.1:8080 report.db`

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use leasehold::{Client, Stale};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

/// Reports in a database. Each report is protected by the lock with the same name.
pub(crate) struct Reports {
    database: Connection,
}

impl Reports {
    /// Opens the database, or creates it.
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        let database = Connection::open(path)?;
        database.busy_timeout(Duration::from_secs(5))?;
        database.execute_batch(
            "CREATE TABLE IF NOT EXISTS fence (resource TEXT PRIMARY KEY, token INTEGER NOT NULL);
             CREATE TABLE IF NOT EXISTS report (name TEXT PRIMARY KEY, body TEXT NOT NULL);",
        )?;
        Ok(Self { database })
    }

    /// Writes a report, unless a newer token was already used for it. The token and the report are written together
    /// or not at all: the transaction takes the write lock at its start, so no other write can come between the
    /// comparison and the write.
    pub(crate) fn write(
        &mut self,
        name: &str,
        token: u64,
        body: &str,
    ) -> Result<(), Box<dyn Error>> {
        // Tokens are below 2^53.
        let stored = i64::try_from(token)?;
        let transaction =
            self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let n_passed = transaction.execute(
            "INSERT INTO fence (resource, token) VALUES (?1, ?2)
             ON CONFLICT (resource) DO UPDATE SET token = excluded.token
             WHERE fence.token <= excluded.token",
            params![name, stored],
        )?;
        if n_passed == 0 {
            let newest = "SELECT token FROM fence WHERE resource = ?1";
            let newest: i64 = transaction.query_row(newest, [name], |row| row.get(0))?;
            return Err(Stale { token, newest: newest.unsigned_abs() }.into());
        }
        transaction.execute(
            "INSERT INTO report (name, body) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET body = excluded.body",
            params![name, body],
        )?;
        Ok(transaction.commit()?)
    }

    /// Returns the last text written.
    pub(crate) fn read(&self, name: &str) -> rusqlite::Result<Option<String>> {
        let body = "SELECT body FROM report WHERE name = ?1";
        self.database.query_row(body, [name], |row| row.get(0)).optional()
    }
}

/// Runs two writers, the first of which returns too late. Returns the error with which the gate rejects its write.
pub(crate) async fn demo(url: &str, path: &Path) -> Result<String, Box<dyn Error>> {
    let mut reports = Reports::open(path)?;
    let client = Client::new(url)?;
    let first = client.lock("monthly").acquire().await?;
    let late = first.fencing_token();
    reports.write("monthly", late, "by the first")?;
    first.release().await?;

    let second = client.lock("monthly").acquire().await?;
    reports.write("monthly", second.fencing_token(), "by the second")?;
    let refused = match reports.write("monthly", late, "by the first, after its time") {
        Ok(()) => return Err("a late write came through".into()),
        Err(stale) => stale.to_string(),
    };
    assert_eq!(reports.read("monthly")?.as_deref(), Some("by the second"));
    second.release().await?;
    Ok(refused)
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8080".into());
    let path = arguments.next().unwrap_or_else(|| "report.db".into());
    println!("{}", demo(&url, Path::new(&path)).await?);
    Ok(())
}
