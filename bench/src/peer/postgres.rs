//! PostgreSQL: a lock is a row with owner, expiry and token. Its advisory locks, which are not durable, are measured
//! for comparison.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use tokio_postgres::{NoTls, Statement};

use super::process::{self, Process};
use super::redis::BACKOFF;
use super::{Client, Peer};

/// The server, which serves both kinds of locks.
pub(crate) struct Postgres {
    process: Process,
}

/// Locks as rows.
#[derive(Clone)]
pub(crate) struct Rows(Rc<Postgres>);

pub(crate) struct Advisory(Rc<Postgres>);

impl Rows {
    pub(crate) fn start(data: &Path) -> Self {
        Self(Rc::new(Postgres::start(data)))
    }

    /// Returns a peer for the advisory locks of the same server.
    pub(crate) fn advisory(&self) -> Advisory {
        Advisory(self.0.clone())
    }
}

impl Postgres {
    fn start(data: &Path) -> Self {
        let folder = process::empty(data, "postgres");
        let cluster = folder.join("cluster");
        std::fs::create_dir(&cluster).expect("a folder");
        if is_root() {
            let owned = Command::new("chown").arg("-R").arg("postgres:").arg(&folder).status();
            assert!(owned.is_ok_and(|status| status.success()), "the user postgres is missing");
        }
        let mut init = server_command("initdb");
        init.args(["--auth=trust", "--username=bench", "--no-instructions", "-D"]).arg(&cluster);
        let made = init.output().expect("initdb");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let address = process::free_address();
        let mut command = server_command("postgres");
        command.arg("-D").arg(&cluster).args(["-c", "synchronous_commit=on", "-c", "fsync=on"]);
        command.args(["-c", "max_connections=300", "-c", "listen_addresses=127.0.0.1"]);
        command.args(["-c", "unix_socket_directories=", "-c", &format!("port={}", address.port())]);
        let postgres = Self { process: Process::start(command, address, &folder) };
        postgres.prepare();
        postgres
    }

    fn prepare(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(tokio::task::LocalSet::new().run_until(async {
            let client = self.client().await;
            let table = "CREATE TABLE locks (name text PRIMARY KEY, owner text, expires_at timestamptz, \
                         token bigint NOT NULL) WITH (fillfactor = 50)";
            client.batch_execute(table).await.expect("a table");
        }));
    }

    async fn client(&self) -> tokio_postgres::Client {
        let config = format!(
            "host=127.0.0.1 port={} user=bench dbname=postgres",
            self.process.address.port()
        );
        // PostgreSQL listens shortly before it accepts connections.
        for _ in 0..200 {
            if let Ok((client, connection)) = tokio_postgres::connect(&config, NoTls).await {
                tokio::task::spawn_local(connection);
                return client;
            }
            tokio::time::sleep(BACKOFF).await;
        }
        panic!("PostgreSQL accepts no connection");
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Debian installs the server programs outside of PATH, and PostgreSQL does not run as root.
fn server_command(program: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|version| version.path()).max().expect("PostgreSQL is installed");
    let path = newest.join("bin").join(program);
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(path);
    command
}

impl Peer for Rows {
    type Client = RowClient;

    fn name(&self) -> &'static str {
        "postgres, a row"
    }

    fn pid(&self) -> u32 {
        self.0.process.pid()
    }

    async fn connect(&self, n: usize) -> RowClient {
        let client = self.0.client().await;
        let take = "INSERT INTO locks VALUES ($1, $2, now() + interval '60 s', 1) \
                    ON CONFLICT (name) DO UPDATE SET owner = $2, expires_at = now() + interval '60 s', \
                    token = locks.token + 1 WHERE locks.owner IS NULL OR locks.expires_at < now() RETURNING token";
        let give = "UPDATE locks SET owner = NULL WHERE name = $1 AND owner = $2 AND token = $3";
        let take = client.prepare(take).await.expect("a statement");
        let give = client.prepare(give).await.expect("a statement");
        RowClient { client, take, give, owner: format!("c{n}"), token: 0 }
    }
}

pub(crate) struct RowClient {
    client: tokio_postgres::Client,
    take: Statement,
    give: Statement,
    owner: String,
    token: i64,
}

impl RowClient {
    async fn try_take(&mut self, key: &str) -> bool {
        let row = self.client.query_opt(&self.take, &[&key, &self.owner]).await;
        let row = row.expect("an answer");
        self.token = row.as_ref().map_or(0, |row| row.get(0));
        row.is_some()
    }
}

impl Client for RowClient {
    async fn acquire(&mut self, key: &str) {
        assert!(self.try_take(key).await);
    }

    async fn release(&mut self, key: &str) {
        let done = self.client.execute(&self.give, &[&key, &self.owner, &self.token]).await;
        assert_eq!(done.expect("an answer"), 1);
    }

    async fn wait_for(&mut self, key: &str) {
        while !self.try_take(key).await {
            tokio::time::sleep(BACKOFF).await;
        }
    }
}

impl Peer for Advisory {
    type Client = AdvisoryClient;

    fn name(&self) -> &'static str {
        "postgres, advisory"
    }

    fn pid(&self) -> u32 {
        self.0.process.pid()
    }

    async fn connect(&self, _: usize) -> AdvisoryClient {
        let client = self.0.client().await;
        let take = client.prepare("SELECT pg_try_advisory_lock($1)").await.expect("a statement");
        let give = client.prepare("SELECT pg_advisory_unlock($1)").await.expect("a statement");
        AdvisoryClient { client, take, give }
    }
}

pub(crate) struct AdvisoryClient {
    client: tokio_postgres::Client,
    take: Statement,
    give: Statement,
}

impl AdvisoryClient {
    async fn call(&self, statement: &Statement, key: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let number = hasher.finish() as i64;
        self.client.query_one(statement, &[&number]).await.expect("an answer").get(0)
    }
}

impl Client for AdvisoryClient {
    async fn acquire(&mut self, key: &str) {
        assert!(self.call(&self.take, key).await);
    }

    async fn release(&mut self, key: &str) {
        assert!(self.call(&self.give, key).await);
    }
}
