//! A typical small lock server: HTTP, one SQLite file, one transaction for each request.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rusqlite::{Connection as Database, OptionalExtension, params};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::http::{Connection, cut};
use super::process::{self, Process};
use super::{Client, Peer};

pub(crate) struct Naive {
    process: Process,
}

impl Naive {
    pub(crate) fn start(data: &Path) -> Self {
        let (folder, address) = (process::empty(data, "naive"), process::free_address());
        let command = process::this("naive", address, &folder);
        Self { process: Process::start(command, address, &folder) }
    }
}

impl Peer for Naive {
    type Client = NaiveClient;

    fn name(&self) -> &'static str {
        "one SQLite transaction each"
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    async fn connect(&self, n: usize) -> NaiveClient {
        NaiveClient { connection: Connection::open(self.process.address).await, n, token: 0 }
    }
}

pub(crate) struct NaiveClient {
    connection: Connection,
    n: usize,
    token: u64,
}

impl Client for NaiveClient {
    async fn acquire(&mut self, key: &str) {
        let body = format!("{{\"owner\":\"c{}\",\"token\":0}}", self.n);
        let (status, answer) = self.connection.post(&format!("/{key}/acquire"), &body).await;
        assert_eq!(status, 200, "{answer}");
        self.token = cut(answer, "\"token\":", '}').parse().expect("a token");
    }

    async fn release(&mut self, key: &str) {
        let body = format!("{{\"owner\":\"c{}\",\"token\":{}}}", self.n, self.token);
        let (status, answer) = self.connection.post(&format!("/{key}/release"), &body).await;
        assert_eq!(status, 200, "{answer}");
    }
}

/// Serves until the process is stopped.
pub(super) fn serve(folder: &Path) {
    let database = Database::open(folder.join("locks.db")).expect("a database");
    let set_up = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS locks \
                  (name TEXT PRIMARY KEY, owner TEXT, token INTEGER NOT NULL) WITHOUT ROWID";
    database.execute_batch(set_up).expect("a table");
    let database = Arc::new(Mutex::new(database));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind(process::given_address()).await.expect("a port");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.set_nodelay(true);
            let database = database.clone();
            tokio::spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                let service = service_fn(move |request| answer(database.clone(), request));
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

async fn answer(
    database: Arc<Mutex<Database>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let done = tokio::task::spawn_blocking(move || {
        let mut database = database.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut database, &path, &body).ok().flatten()
    });
    let token = done.await.ok().flatten();
    let mut response = Response::new(Full::new(json!({ "token": token }).to_string().into()));
    if token.is_none() {
        *response.status_mut() = StatusCode::CONFLICT;
    }
    Ok(response)
}

fn act(database: &mut Database, path: &str, body: &Value) -> rusqlite::Result<Option<i64>> {
    let transaction = database.transaction()?;
    let owner = body["owner"].as_str().unwrap_or_default();
    let token = match path.trim_start_matches('/').split_once('/') {
        Some((name, "acquire")) => transaction
            .prepare_cached(
                "INSERT INTO locks VALUES (?1, ?2, 1) ON CONFLICT (name) DO UPDATE SET owner = ?2, \
                 token = token + 1 WHERE owner IS NULL RETURNING token",
            )?
            .query_row(params![name, owner], |row| row.get(0))
            .optional()?,
        Some((name, _)) => transaction
            .prepare_cached(
                "UPDATE locks SET owner = NULL WHERE name = ?1 AND owner = ?2 AND token = ?3 RETURNING token",
            )?
            .query_row(params![name, owner, body["token"].as_i64()], |row| row.get(0))
            .optional()?,
        None => None,
    };
    transaction.commit()?;
    Ok(token)
}
