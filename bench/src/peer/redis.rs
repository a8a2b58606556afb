//! Redis: the lock is a key with an expiry, and the token a separate counter. Each request is one script, in one round
//! trip.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;

use super::process::{self, Process};
use super::{Client, Peer};

/// The pause between two tries for a lock that is held.
pub(super) const BACKOFF: Duration = Duration::from_millis(5);

/// When Redis makes its log durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Before it responds.
    Always,
    /// Once a second: acknowledged writes can be lost.
    Everysec,
}

pub(crate) struct Redis {
    pub(crate) process: Process,
    sync: Sync,
}

impl Redis {
    pub(crate) fn start(data: &Path, sync: Sync) -> Self {
        let folder = process::empty(data, sync.folder());
        Self::start_in(&folder, sync)
    }

    /// Starts a server on the existing data in `folder`.
    pub(crate) fn start_in(folder: &Path, sync: Sync) -> Self {
        let address = process::free_address();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", sync.word(), "--port", &address.port().to_string()]);
        command.arg("--dir").arg(folder);
        Self { process: Process::start(command, address, folder), sync }
    }
}

impl Sync {
    fn word(self) -> &'static str {
        match self {
            Sync::Always => "always",
            Sync::Everysec => "everysec",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Sync::Always => "redis-always",
            Sync::Everysec => "redis-everysec",
        }
    }
}

impl Peer for Redis {
    type Client = RedisClient;

    fn name(&self) -> &'static str {
        match self.sync {
            Sync::Always => "redis, fsync always",
            Sync::Everysec => "redis, fsync every second",
        }
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    async fn connect(&self, n: usize) -> RedisClient {
        let client = redis::Client::open(format!("redis://{}/", self.process.address));
        let client = client.expect("an address");
        let connection = client.get_multiplexed_async_connection().await.expect("a connection");
        RedisClient {
            connection,
            owner: format!("c{n}"),
            take: Script::new(
                "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) \
                 then return redis.call('incr', KEYS[2]) else return 0 end",
            ),
            give: Script::new(
                "if redis.call('get', KEYS[1]) == ARGV[1] \
                 then return redis.call('del', KEYS[1]) else return 0 end",
            ),
            extend: Script::new(
                "if redis.call('get', KEYS[1]) == ARGV[1] \
                 then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end",
            ),
        }
    }
}

pub(crate) struct RedisClient {
    connection: MultiplexedConnection,
    owner: String,
    take: Script,
    give: Script,
    extend: Script,
}

impl RedisClient {
    /// Tries to acquire the lock. Returns the token, or 0 if the lock is held.
    pub(crate) async fn try_take(&mut self, key: &str, ttl_ms: u64) -> u64 {
        let mut call = self.take.key(key);
        call.key(format!("fence:{key}")).arg(&self.owner).arg(ttl_ms);
        call.invoke_async(&mut self.connection).await.expect("an answer")
    }

    pub(crate) async fn renew(&mut self, key: &str) {
        let mut call = self.extend.key(key);
        call.arg(&self.owner).arg(60_000);
        let done: u64 = call.invoke_async(&mut self.connection).await.expect("an answer");
        assert_eq!(done, 1);
    }

    pub(crate) async fn command(&mut self, words: &[&str]) -> redis::Value {
        self.try_command(words).await.expect("an answer")
    }

    pub(crate) async fn try_command(&mut self, words: &[&str]) -> redis::RedisResult<redis::Value> {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.connection).await
    }
}

impl Client for RedisClient {
    async fn acquire(&mut self, key: &str) {
        assert!(self.try_take(key, 60_000).await > 0);
    }

    async fn release(&mut self, key: &str) {
        let mut call = self.give.key(key);
        call.arg(&self.owner);
        let done: u64 = call.invoke_async(&mut self.connection).await.expect("an answer");
        assert_eq!(done, 1);
    }

    async fn wait_for(&mut self, key: &str) {
        while self.try_take(key, 60_000).await == 0 {
            tokio::time::sleep(BACKOFF).await;
        }
    }
}
