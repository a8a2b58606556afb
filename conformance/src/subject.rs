//! The driver that is judged, and what it can be told.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::driver::{Asked, Driver, Refusal};
use crate::flaw::{Flaw, Outcome, broken, demand};
use crate::resource::Resource;

/// What a run is about.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The binary `leasehold`.
    pub server: PathBuf,
    /// The command of the driver.
    pub driver: Vec<String>,
    /// Set for the driver.
    pub environment: Vec<(String, String)>,
}

/// A driver, and what its locks protect.
pub struct Subject {
    /// The driver that is judged.
    pub driver: Driver,
    /// What it calls itself.
    pub name: String,
    /// What the locks protect.
    pub resource: Resource,
}

/// How long one request of a driver may take.
pub(crate) const TIMEOUT_MS: u64 = 3_000;

impl Subject {
    /// Both, started.
    pub async fn start(setup: &Setup) -> Outcome<Self> {
        let resource = Resource::open().await.map_err(broken)?;
        let (driver, name) = Driver::start(&setup.driver, &setup.environment).await?;
        Ok(Self { driver, name, resource })
    }

    /// A client whose owner is called like it, with these fields.
    pub async fn connect_with(&self, client: &str, fields: Value) -> Outcome {
        let usual = json!({
            "do": "connect", "client": client, "owner": client, "timeout_ms": TIMEOUT_MS,
        });
        self.driver.ask(with(usual, fields)).await.map(drop)
    }

    /// Begins to acquire `lock`; the lease is called like the lock and its owner.
    pub fn begin_acquire(&self, client: &str, lock: &str, fields: Value) -> Asked {
        let lease = lease_of(client, lock);
        let usual = json!({"do": "acquire", "client": client, "lease": lease, "lock": lock});
        self.driver.begin(with(usual, fields))
    }

    /// Acquires `lock`, which must succeed. The fencing token.
    pub async fn acquire(&self, client: &str, lock: &str, fields: Value) -> Outcome<u64> {
        granted(self.begin_acquire(client, lock, fields)).await
    }

    /// Releases what [`acquire`](Self::acquire) got, which must succeed.
    pub async fn release(&self, client: &str, lock: &str) -> Outcome {
        let release = json!({"do": "release", "lease": lease_of(client, lock)});
        self.driver.ask(release).await.map(drop)
    }

    /// Whether the SDK says that the lease is held.
    pub async fn is_held(&self, lease: &str) -> Outcome<bool> {
        let answer = self.driver.ask(json!({"do": "check", "lease": lease})).await?;
        demand!(answer["held"].is_boolean(), "`check` answered {answer}, without `held`");
        Ok(answer["held"] == true)
    }

    /// No loss of these leases was told, and the SDK says that they are held.
    pub async fn are_held(&self, leases: &[&str]) -> Outcome {
        for lease in leases {
            let losses = self.driver.losses(("lease", lease));
            demand!(losses.is_empty(), "told lost although it could be renewed: {losses:?}");
            demand!(self.is_held(lease).await?, "`check` says {lease:?} is lost");
        }
        Ok(())
    }

    /// Has the driver write to the resource with the token of a lease; `is_checked`: only if the SDK says it is held.
    pub fn write(&self, lease: &str, value: &str, is_checked: bool) -> Asked {
        let url = self.resource.url();
        self.driver.begin(json!({
            "do": "write", "lease": lease, "url": url, "value": value, "checked": is_checked,
        }))
    }
}

/// The token, once it is granted.
pub(crate) async fn granted(asked: Asked) -> Outcome<u64> {
    token_of(asked.answer().await?)
}

/// The token in an answer that should have one.
pub(crate) fn token_of(answer: Result<Value, Refusal>) -> Outcome<u64> {
    let answer = answer
        .map_err(|no| Flaw::Wrong(format!("an acquire that should succeed: {}", no.error)))?;
    let token = answer["fencing_token"].as_u64();
    token.ok_or_else(|| Flaw::Wrong(format!("no fencing_token in {answer}")))
}

/// What a lease is called.
pub(crate) fn lease_of(client: &str, lock: &str) -> String {
    format!("{client}:{lock}")
}

/// Both objects' members in one.
pub(crate) fn with(mut usual: Value, more: Value) -> Value {
    if let (Value::Object(usual), Value::Object(more)) = (&mut usual, more) {
        usual.extend(more);
    }
    usual
}
