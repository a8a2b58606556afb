//! A minimal RESP client, the same for Redis and Leasehold: `SET NX PX`, and a script by its SHA-1 that deletes if
//! equal.

use std::path::Path;
use std::process::Command;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::process::{self, Process};
use super::redis::{Redis, Sync};
use super::{Client, Peer};

const DELETE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/// A server that speaks RESP. Each client requests `n_at_once` locks at a time.
pub(crate) struct Resp {
    process: Process,
    name: &'static str,
    n_at_once: usize,
}

impl Resp {
    pub(crate) fn redis(data: &Path, n_at_once: usize) -> Self {
        let Redis { process, .. } = Redis::start(&folder(data, n_at_once), Sync::Always);
        Self { process, name: "redis, fsync always", n_at_once }
    }

    pub(crate) fn leasehold(data: &Path, binary: &str, n_at_once: usize) -> Self {
        let folder = process::empty(&folder(data, n_at_once), "leasehold-redis");
        let address = process::free_address();
        let mut command = Command::new(binary);
        command.args(["serve", "--listen=127.0.0.1:0", &format!("--redis-listen={address}")]);
        command.arg("--data").arg(folder.join("data"));
        let process = Process::start(command, address, &folder);
        Self { process, name: "leasehold", n_at_once }
    }
}

/// Returns a separate directory for each `n_at_once`, so that both can run at the same time.
fn folder(data: &Path, n_at_once: usize) -> std::path::PathBuf {
    data.join(format!("resp-{n_at_once}"))
}

impl Peer for Resp {
    type Client = RespClient;

    fn name(&self) -> &'static str {
        self.name
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    async fn connect(&self, n: usize) -> RespClient {
        let stream = TcpStream::connect(self.process.address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let (stream, n_at_once) = (BufReader::new(stream), self.n_at_once);
        let mut client =
            RespClient { stream, owner: format!("c{n}"), sha: String::new(), n_at_once };
        client.sha = client.load().await;
        client
    }
}

/// One connection. Each acquire is a pipeline of commands for `n_at_once` locks.
pub(crate) struct RespClient {
    stream: BufReader<TcpStream>,
    owner: String,
    sha: String,
    n_at_once: usize,
}

impl RespClient {
    async fn load(&mut self) -> String {
        let mut request = Vec::new();
        add(&mut request, &["SCRIPT", "LOAD", DELETE]);
        self.stream.write_all(&request).await.expect("a connection");
        assert_eq!(self.line().await, "$40");
        let mut sha = [0; 42];
        self.stream.read_exact(&mut sha).await.expect("an answer");
        String::from_utf8_lossy(&sha[..40]).into_owned()
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.expect("an answer");
        line.trim_end().to_owned()
    }

    async fn ask(&mut self, request: &[u8], expected: &str) {
        self.stream.write_all(request).await.expect("a connection");
        for _ in 0..self.n_at_once {
            assert_eq!(self.line().await, expected);
        }
    }

    fn keys(&self, key: &str) -> Vec<String> {
        (0..self.n_at_once).map(|n| format!("{key}-{n}")).collect()
    }
}

impl Client for RespClient {
    async fn acquire(&mut self, key: &str) {
        let mut request = Vec::new();
        for key in self.keys(key) {
            add(&mut request, &["SET", &key, &self.owner, "NX", "PX", "60000"]);
        }
        self.ask(&request, "+OK").await;
    }

    async fn release(&mut self, key: &str) {
        let mut request = Vec::new();
        for key in self.keys(key) {
            add(&mut request, &["EVALSHA", &self.sha, "1", &key, &self.owner]);
        }
        self.ask(&request, ":1").await;
    }
}

fn add(request: &mut Vec<u8>, words: &[&str]) {
    request.extend(format!("*{}\r\n", words.len()).bytes());
    words.iter().for_each(|word| request.extend(format!("${}\r\n{word}\r\n", word.len()).bytes()));
}
