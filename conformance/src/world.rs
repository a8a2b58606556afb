//! All that one script has: a server, two links to it, a fenced resource and a driver.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::driver::{Asked, Driver, Told};
use crate::flaw::{Outcome, broken, demand};
use crate::link::{Fate, Link, Rule};
use crate::resource::Resource;
use crate::seen::Log;
use crate::server::Server;

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

/// All that one script has.
pub struct World {
    /// The driver that is judged.
    pub driver: Driver,
    /// What it calls itself.
    pub name: String,
    /// The ways to the server. Only scripts about several URLs use the second.
    pub links: [Link; 2],
    /// What went through the links.
    pub log: Log,
    /// What the locks protect.
    pub resource: Resource,
    /// The server.
    pub server: Server,
    /// When all this was ready.
    pub start: Instant,
}

/// How long one request of a driver may take.
pub(crate) const TIMEOUT_MS: u64 = 3_000;

impl World {
    /// All of it, started.
    pub async fn open(setup: &Setup) -> Outcome<Self> {
        let server = Server::start(setup.server.clone()).await?;
        let log = Log::default();
        let link = |number| Link::open(number, server.upstream(), log.clone());
        let links = [link(0).await.map_err(broken)?, link(1).await.map_err(broken)?];
        let resource = Resource::open().await.map_err(broken)?;
        let (driver, name) = Driver::start(&setup.driver, &setup.environment).await?;
        Ok(Self { driver, name, links, log, resource, server, start: Instant::now() })
    }

    /// The way to the server that everybody uses who has one.
    pub fn link(&self) -> &Link {
        &self.links[0]
    }

    /// A client whose owner is called like it, over the first link.
    pub async fn connect(&self, client: &str) -> Outcome {
        self.connect_with(client, json!({"urls": [self.link().url()]})).await
    }

    /// The same, with these fields.
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

    /// Has the driver write to the resource with the token of a lease; `is_checked`: only if the SDK says it is held.
    pub fn write(&self, lease: &str, value: &str, is_checked: bool) -> Asked {
        let url = self.resource.url();
        self.driver.begin(json!({
            "do": "write", "lease": lease, "url": url, "value": value, "checked": is_checked,
        }))
    }

    /// From now on nothing reaches the server.
    pub fn swallow(&self) {
        for link in &self.links {
            link.obey([Rule::always("/", Fate::Swallowed)]);
        }
    }

    /// Lets time go by in which no loss of these leases may be told, and none may be expired.
    pub async fn stays_held(&self, leases: &[&str], time: Duration) -> Outcome {
        tokio::time::sleep(time).await;
        for lease in leases {
            let losses = self.driver.losses(("lease", lease));
            demand!(losses.is_empty(), "told lost although it could be renewed: {losses:?}");
            demand!(self.is_held(lease).await?, "`check` says {lease:?} is lost");
        }
        let history = self.server.history().await?;
        demand!(history.of("expired").is_empty(), "the server saw one expire: {history:?}");
        Ok(())
    }

    /// The loss of `about`, which must be told before what these requests (parts of their paths) kept alive can have
    /// ended: `ttl` after the last of them was passed on to the server.
    pub async fn lost_in_time(
        &self,
        about: (&str, &str),
        kept_by: &[&str],
        ttl: Duration,
    ) -> Outcome<Told> {
        let told = self.driver.lost(about, ttl * 2).await?;
        let end = self.log.end(kept_by, ttl).ok_or_else(|| broken("nothing was served"))?;
        demand!(
            told.at <= end,
            "{about:?} told lost {:?} after its lease can have ended",
            told.at.duration_since(end)
        );
        // Seen from here the client counts from too early: it was busy before its request was here.
        let begin = end - ttl;
        demand!(
            told.at >= begin + ttl / 4,
            "{about:?} told lost too early: {:?} of {ttl:?} were left",
            end.duration_since(told.at)
        );
        demand!(
            told.event["reason"] == "out_of_time",
            "it ran out of time, and was told as {}",
            told.event["reason"]
        );
        Ok(told)
    }
}

/// The token, once it is granted.
pub(crate) async fn granted(asked: Asked) -> Outcome<u64> {
    let answer = asked.answer().await?;
    let answer = answer.map_err(|no| {
        crate::flaw::Flaw::Wrong(format!("an acquire that should succeed: {}", no.error))
    })?;
    let token = answer["fencing_token"].as_u64();
    token.ok_or_else(|| crate::flaw::Flaw::Wrong(format!("no fencing_token in {answer}")))
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
