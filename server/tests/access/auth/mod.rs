//! Tests of authentication and authorization over real HTTP, in every dialect.

mod apart;
mod audit;
mod browser;
mod circle;
mod console;
mod doubt;
mod files;
mod idp;
mod introspection;
mod key;
mod mistake;
mod order;
mod own;
mod permissions;
mod proxy;
mod quota;
mod reload;
mod remembered;
mod retention;
mod revocation;
mod rotation;
mod secluded;
mod share;
mod sign_in;
mod together;
mod token;
mod waits;
mod wrong_proof;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Method;
use leasehold_auth::NewKey;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, Response, TempDir, Value, folder, json, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server with an auth file, and the API keys of its principals by name.
struct Scene {
    local: Local,
    folder: TempDir,
    keys: BTreeMap<String, NewKey>,
}

/// Auth file of most tests. Each principal has one right in the namespaces that the dialects use.
const RULES: &str = r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "readers"
who = ["key:reader"]
may = ["read"]
namespaces = ["default", "t"]

[[rule]]
name = "takers"
who = ["key:taker", "key:other"]
may = ["acquire"]
namespaces = ["default", "t"]

[[rule]]
name = "revokers"
who = ["key:revoker"]
may = ["revoke"]
namespaces = ["default", "t", "files", "terraform", "lfs"]

[[rule]]
name = "file readers"
who = ["key:file-reader"]
may = ["files-read"]
namespaces = ["files", "terraform", "lfs"]

[[rule]]
name = "file writers"
who = ["key:file-writer", "key:other"]
may = ["files-write"]
namespaces = ["files", "terraform", "lfs"]

[[rule]]
name = "admins"
who = ["key:admin"]
may = ["admin"]
namespaces = ["*"]
"#;
const NAMES: [&str; 8] =
    ["reader", "taker", "other", "revoker", "file-reader", "file-writer", "admin", "nothing"];

impl Scene {
    async fn new() -> Self {
        Self::with(RULES, &NAMES, |_| {}).await
    }

    async fn with(rules: &str, names: &[&str], change: impl FnOnce(&mut Settings)) -> Self {
        Self::with_files(rules, names, &[], change).await
    }

    /// Starts a server with additional files in the directory of the auth file.
    async fn with_files(
        rules: &str,
        names: &[&str],
        files: &[(&str, &str)],
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let folder = folder();
        let keys: BTreeMap<_, _> =
            names.iter().map(|name| (name.to_string(), NewKey::draw())).collect();
        let mut settings = settings(None);
        settings.auth_file = Some(folder.path().join("auth.toml"));
        change(&mut settings);
        write_keys(folder.path().join("keys.toml"), &keys, "");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        std::fs::write(folder.path().join("auth.toml"), rules).expect("a file");
        let local = Local::start(settings).await;
        Self { local, folder, keys }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the `Authorization` header with the key of `who`, or nothing if `who` has no key.
    fn proof(&self, who: &str) -> Vec<(&'static str, String)> {
        match self.keys.get(who) {
            Some(key) => vec![("authorization", format!("Bearer {}", key.text))],
            None => Vec::new(),
        }
    }

    async fn send(&self, who: &str, line: &str, body: Value) -> Response {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let method: Method = method.parse().expect("a method");
        let proof = self.proof(who);
        let mut headers: Vec<_> =
            proof.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        if !body.is_empty() {
            headers.push(("content-type", "application/json"));
        }
        self.local.client.send_with(method, path, &headers, body).await.expect("an answer")
    }

    /// Returns the status only. Also works for a response that never ends.
    async fn status(&self, headers: &[(&str, &str)], line: &str, body: &str) -> u16 {
        self.head(headers, line, body).await.0
    }

    /// Returns the status and the head of a response.
    async fn head(&self, headers: &[(&str, &str)], line: &str, body: &str) -> (u16, String) {
        let mut request = format!("{line} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request += "host: localhost\r\n";
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if body.starts_with('<') {
            request += "content-type: application/xml\r\n";
        } else if !body.is_empty() {
            request += "content-type: application/json\r\n";
        }
        request += &format!("content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(self.local.address).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("it is there");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.expect("an answer") == 1
        {
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status in {head:?}")), head.to_lowercase())
    }

    /// Reads an event stream up to and including the event that contains `word`.
    async fn stream(&self, headers: &[(&str, &str)], line: &str, word: &str) -> String {
        let mut request = format!("{line} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(self.local.address).await.expect("a connection");
        stream.write_all(format!("{request}\r\n").as_bytes()).await.expect("it is there");
        let mut told = Vec::new();
        let reading = async {
            while !String::from_utf8_lossy(&told).contains(word) {
                let n = stream.read_buf(&mut told).await.expect("more");
                assert!(n > 0, "it ended: {}", String::from_utf8_lossy(&told));
            }
            // The event's data follows its name.
            while !told.ends_with(b"\n\n") && !told.ends_with(b"\r\n") {
                stream.read_buf(&mut told).await.expect("more");
            }
        };
        tokio::time::timeout(Duration::from_secs(120), reading).await.expect("in time");
        String::from_utf8_lossy(&told).into_owned()
    }

    /// Removes the key of `who` from the key file.
    fn revoke(&self, who: &str) {
        let kept = self.keys.iter().filter(|(name, _)| *name != who);
        let kept = kept.map(|(name, key)| {
            let NewKey { id, text, sha256 } = key;
            let key = NewKey { id: id.clone(), text: text.clone(), sha256: sha256.clone() };
            (name.clone(), key)
        });
        write_keys(self.file("keys.toml"), &kept.collect(), "");
    }

    async fn stop(self) {
        self.local.stop().await;
    }
}

/// Writes a key file as `leasehold key` does, with `more` added to each key.
fn write_keys(path: PathBuf, keys: &BTreeMap<String, NewKey>, more: &str) {
    let entry = |(name, key): (&String, &NewKey)| {
        let NewKey { id, sha256, .. } = key;
        format!("[[key]]\nname = \"{name}\"\nid = \"{id}\"\nsha256 = \"{sha256}\"\n{more}\n")
    };
    let text: String = keys.iter().map(entry).collect();
    let text = if text.is_empty() { "key = []\n".to_owned() } else { text };
    std::fs::write(&path, text).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("rights");
}

fn acquire(owner: &str) -> Value {
    json!({"owner_id": owner, "ttl_ms": 60_000})
}
