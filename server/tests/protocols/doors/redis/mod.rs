//! Tests of the Redis protocol, byte by byte. `scripts/doors` tests real Redis lock libraries.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod connection;
mod delivery;
mod group;
mod identity;
mod lock;
mod meeting;
mod semaphore;

use std::net::SocketAddr;
use std::time::Duration;

use leasehold_server::dialect::Dialect;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, settings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Test timeout, longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(180);

/// Hashes of the redis-py scripts that delete or extend a key if its value matches.
const DELETE: &str = "c3f8721cbb97f72bc19e972846bd7aaf91901658";
const EXTEND: &str = "a4e8783852e6b949f9ef3a97212805108459a890";
const EXPIRE: &str = "1cac51482acf5858da00f6d685d68f886cd6b6b2";

/// A server that listens for Redis clients.
struct Scene {
    local: Local,
    address: SocketAddr,
}

impl Scene {
    async fn new() -> Self {
        Self::with(settings(None), |_| {}).await
    }

    async fn with(mut settings: Settings, change: impl FnOnce(&mut Settings)) -> Self {
        settings.dialect.redis.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(&mut settings);
        let local = Local::start(settings).await;
        let address = local.server.listening(Dialect::Redis).expect("it listens");
        Self { local, address }
    }

    async fn connect(&self) -> Client<TcpStream> {
        Client { stream: TcpStream::connect(self.address).await.unwrap() }
    }

    /// Returns the value of the metric with this name.
    async fn metric(&self, name: &str) -> u64 {
        let text = self.local.client.get("/metrics").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }
}

/// A connection of a Redis client.
struct Client<S> {
    stream: S,
}

/// Encodes words as a Redis command.
fn request_of(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
    bytes.into_bytes()
}

/// Encodes a line of words as a Redis command.
fn request(line: &str) -> Vec<u8> {
    request_of(&line.split(' ').collect::<Vec<_>>())
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Sends a line of words and returns the response.
    async fn ask(&mut self, line: &str) -> String {
        self.send(&request(line)).await;
        self.read().await
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Returns one response as text: `OK`, `7`, `"text"`, `nil`, `-ERR ...`, `[...]` or `{...}`. Returns `end` at the
    /// end of the stream.
    async fn read(&mut self) -> String {
        tokio::time::timeout(PATIENCE, self.value()).await.expect("an answer in time")
    }

    async fn value(&mut self) -> String {
        let Some(line) = self.line().await else { return "end".into() };
        let (sign, rest) = line.split_at(1);
        match sign {
            "+" | ":" => rest.into(),
            "-" => line,
            "_" => "nil".into(),
            "$" if rest == "-1" => "nil".into(),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.stream.read_exact(&mut text).await.unwrap();
                format!("{:?}", String::from_utf8_lossy(&text[..text.len() - 2]))
            }
            "*" | "%" => {
                let n = rest.parse::<usize>().unwrap() * if sign == "%" { 2 } else { 1 };
                let mut items = Vec::new();
                for _ in 0..n {
                    items.push(Box::pin(self.value()).await);
                }
                let items = items.join(" ");
                if sign == "%" { format!("{{{items}}}") } else { format!("[{items}]") }
            }
            _ => panic!("{line:?} is no answer"),
        }
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(self.stream.read_u8().await.ok()?);
        }
        Some(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned())
    }

    /// Runs a script. Each line is a command and its expected response; `...` at the end matches any rest.
    async fn check(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once(" => ").expect("a command and its answer");
            let answer = self.ask(command).await;
            match expected.strip_suffix("...") {
                Some(start) => assert!(answer.starts_with(start), "{command}: {answer}"),
                None => assert_eq!(answer, expected, "{command}"),
            }
        }
    }
}
