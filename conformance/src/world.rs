//! The world of one script: a driver with a fenced resource, a server, and two links to it.

use std::ops::Deref;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::driver::Told;
use crate::flaw::{Outcome, broken, demand};
use crate::link::{Fate, Link, Rule};
use crate::seen::Log;
use crate::server::Server;

use crate::subject::{Setup, Subject};
pub(crate) use crate::subject::{granted, lease_of, with};

/// The world of one script. Its [`Subject`] accepts the commands for the driver.
pub struct World {
    subject: Subject,
    /// The links to the server. Only scripts about several URLs use the second.
    pub links: [Link; 2],
    /// The requests that went through the links.
    pub log: Log,
    /// The server under test.
    pub server: Server,
    /// When the world was ready.
    pub start: Instant,
}

impl Deref for World {
    type Target = Subject;

    fn deref(&self) -> &Subject {
        &self.subject
    }
}

impl World {
    /// Starts everything.
    pub async fn open(setup: &Setup) -> Outcome<Self> {
        let server = Server::start(setup.server.clone()).await?;
        let log = Log::default();
        let link = |number| Link::open(number, server.upstream(), log.clone());
        let links = [link(0).await.map_err(broken)?, link(1).await.map_err(broken)?];
        let subject = Subject::start(setup).await?;
        Ok(Self { subject, links, log, server, start: Instant::now() })
    }

    /// Returns the link that clients with only one URL use.
    pub fn link(&self) -> &Link {
        &self.links[0]
    }

    /// Connects a client over the first link. The owner has the client's name.
    pub async fn connect(&self, client: &str) -> Outcome {
        self.connect_with(client, json!({"urls": [self.link().url()]})).await
    }

    /// Makes the links swallow all requests, so that nothing reaches the server.
    pub fn swallow(&self) {
        for link in &self.links {
            link.obey([Rule::always("/", Fate::Swallowed)]);
        }
    }

    /// Waits for a time in which no loss of these leases may be reported and none may expire.
    pub async fn stays_held(&self, leases: &[&str], time: Duration) -> Outcome {
        tokio::time::sleep(time).await;
        self.are_held(leases).await?;
        let history = self.server.history().await?;
        demand!(history.of("expired").is_empty(), "the server saw one expire: {history:?}");
        Ok(())
    }

    /// Waits for the loss of `about`. It must be reported before the lease can have ended, which is `ttl` after the
    /// server received the last request that keeps the lease alive. `kept_by` contains parts of the paths of such
    /// requests.
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
        // The client counts from an earlier time than the proxy: it was busy before its request arrived here.
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
