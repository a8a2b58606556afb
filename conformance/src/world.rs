//! All that one script has: a driver with a fenced resource, a server and two links to it.

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

/// All that one script has. What a driver can be told is said to its [`Subject`].
pub struct World {
    subject: Subject,
    /// The ways to the server. Only scripts about several URLs use the second.
    pub links: [Link; 2],
    /// What went through the links.
    pub log: Log,
    /// The server.
    pub server: Server,
    /// When all this was ready.
    pub start: Instant,
}

impl Deref for World {
    type Target = Subject;

    fn deref(&self) -> &Subject {
        &self.subject
    }
}

impl World {
    /// All of it, started.
    pub async fn open(setup: &Setup) -> Outcome<Self> {
        let server = Server::start(setup.server.clone()).await?;
        let log = Log::default();
        let link = |number| Link::open(number, server.upstream(), log.clone());
        let links = [link(0).await.map_err(broken)?, link(1).await.map_err(broken)?];
        let subject = Subject::start(setup).await?;
        Ok(Self { subject, links, log, server, start: Instant::now() })
    }

    /// The way to the server that everybody uses who has one.
    pub fn link(&self) -> &Link {
        &self.links[0]
    }

    /// A client whose owner is called like it, over the first link.
    pub async fn connect(&self, client: &str) -> Outcome {
        self.connect_with(client, json!({"urls": [self.link().url()]})).await
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
        self.are_held(leases).await?;
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
