//! The driver under test, and the commands for it.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::driver::{Asked, Driver, Refusal};
use crate::flaw::{Flaw, Outcome, broken, demand};
use crate::resource::Resource;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The path of the `leasehold` binary.
    pub server: PathBuf,
    /// The command line of the driver.
    pub driver: Vec<String>,
    /// Additional environment variables of the driver.
    pub environment: Vec<(String, String)>,
}

/// A driver, and the resource that its locks protect.
pub struct Subject {
    /// The driver under test.
    pub driver: Driver,
    /// The name that it reports.
    pub name: String,
    /// The protected resource.
    pub resource: Resource,
}

/// The time limit of one request of a driver.
pub(crate) const TIMEOUT_MS: u64 = 3_000;

impl Subject {
    /// Starts the driver and the resource.
    pub async fn start(setup: &Setup) -> Outcome<Self> {
        let resource = Resource::open().await.map_err(broken)?;
        let (driver, name) = Driver::start(&setup.driver, &setup.environment).await?;
        Ok(Self { driver, name, resource })
    }

    /// Connects a client with these fields. The owner has the client's name.
    pub async fn connect_with(&self, client: &str, fields: Value) -> Outcome {
        let usual = json!({
            "do": "connect", "client": client, "owner": client, "timeout_ms": TIMEOUT_MS,
        });
        self.driver.ask(with(usual, fields)).await.map(drop)
    }

    /// Starts to acquire `lock`. The lease is named after the lock and its owner.
    pub fn begin_acquire(&self, client: &str, lock: &str, fields: Value) -> Asked {
        let lease = lease_of(client, lock);
        let usual = json!({"do": "acquire", "client": client, "lease": lease, "lock": lock});
        self.driver.begin(with(usual, fields))
    }

    /// Acquires `lock`, which must succeed. Returns the fencing token.
    pub async fn acquire(&self, client: &str, lock: &str, fields: Value) -> Outcome<u64> {
        granted(self.begin_acquire(client, lock, fields)).await
    }

    /// Releases a lock acquired with [`acquire`](Self::acquire), which must succeed.
    pub async fn release(&self, client: &str, lock: &str) -> Outcome {
        let release = json!({"do": "release", "lease": lease_of(client, lock)});
        self.driver.ask(release).await.map(drop)
    }

    /// Returns whether the SDK reports that the lease is held.
    pub async fn is_held(&self, lease: &str) -> Outcome<bool> {
        let answer = self.driver.ask(json!({"do": "check", "lease": lease})).await?;
        demand!(answer["held"].is_boolean(), "`check` answered {answer}, without `held`");
        Ok(answer["held"] == true)
    }

    /// Checks that no loss of these leases was reported, and that the SDK reports them as held.
    pub async fn are_held(&self, leases: &[&str]) -> Outcome {
        for lease in leases {
            let losses = self.driver.losses(("lease", lease));
            demand!(losses.is_empty(), "told lost although it could be renewed: {losses:?}");
            demand!(self.is_held(lease).await?, "`check` says {lease:?} is lost");
        }
        Ok(())
    }

    /// Makes the driver write to the resource with the token of a lease. With `is_checked`, it writes only if the SDK
    /// reports the lease as held.
    pub fn write(&self, lease: &str, value: &str, is_checked: bool) -> Asked {
        let url = self.resource.url();
        self.driver.begin(json!({
            "do": "write", "lease": lease, "url": url, "value": value, "checked": is_checked,
        }))
    }
}

/// Waits for a grant and returns its token.
pub(crate) async fn granted(asked: Asked) -> Outcome<u64> {
    token_of(asked.answer().await?)
}

/// Returns the token in a response that must contain one.
pub(crate) fn token_of(answer: Result<Value, Refusal>) -> Outcome<u64> {
    let answer = answer
        .map_err(|no| Flaw::Wrong(format!("an acquire that should succeed: {}", no.error)))?;
    let token = answer["fencing_token"].as_u64();
    token.ok_or_else(|| Flaw::Wrong(format!("no fencing_token in {answer}")))
}

/// Returns the name of a lease.
pub(crate) fn lease_of(client: &str, lock: &str) -> String {
    format!("{client}:{lock}")
}

/// Merges the members of two objects.
pub(crate) fn with(mut usual: Value, more: Value) -> Value {
    if let (Value::Object(usual), Value::Object(more)) = (&mut usual, more) {
        usual.extend(more);
    }
    usual
}
