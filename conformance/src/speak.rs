//! Code shared by drivers written in Rust: it reads commands, responds to them, and converts errors to the names of the
//! protocol.

use std::io::Write;

use leasehold::Error;
use leasehold::api::{Code, Reason};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

/// The result of a command.
pub type Answer = Result<Value, Refusal>;

/// The `error` of a response.
#[derive(Debug)]
pub struct Refusal(pub Value);

impl Refusal {
    /// Creates an error from its name.
    pub fn new(name: &str, message: impl std::fmt::Display) -> Self {
        Self(json!({"name": name, "message": message.to_string()}))
    }

    /// Creates the error for a command that refers to an unknown object.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new("internal", message)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let name = match &error {
            Error::NotAcquired(no) if no.reason == Reason::WaitTimeout => "wait_timeout",
            Error::NotAcquired(_) => "held",
            Error::NotReleased(_) => "not_released",
            Error::NotRenewed(_) | Error::NotRenewedAll(_) | Error::Lost { .. } => "lost",
            Error::Failed { failure, .. } if failure.code == Code::NoSuchSession => "session_over",
            Error::Unreachable(_) | Error::Untrusted(_) => "unreachable",
            Error::Broken(_) => "broken",
            Error::Invalid(_) => "invalid",
            _ => "failed",
        };
        let Self(mut told) = Self::new(name, &error);
        match &error {
            Error::NotAcquired(no) => told["reason"] = json!(no.reason),
            Error::Failed { failure, .. } => told["code"] = json!(failure.code),
            _ => {}
        }
        Self(told)
    }
}

/// Carries out all commands from stdin concurrently, until stdin ends. Then the process exits immediately, without
/// releasing any lease, because a script that ends a driver tests the consequences.
pub async fn speak<F>(obey: impl Fn(Value) -> F) -> !
where
    F: Future<Output = Answer> + Send + 'static,
{
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(command) = serde_json::from_str::<Value>(&line) else { continue };
        if command["do"] == "exit" {
            break;
        }
        let id = command["id"].clone();
        let obeyed = obey(command);
        tokio::spawn(async move {
            say(&match obeyed.await {
                Ok(ok) => json!({"id": id, "ok": ok}),
                Err(Refusal(error)) => json!({"id": id, "error": error}),
            });
        });
    }
    std::process::exit(0)
}

/// Writes a message as one line and flushes it.
pub fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{message}");
    let _ = out.flush();
}

/// Returns a required text field of a command.
pub fn text<'a>(command: &'a Value, name: &str) -> Result<&'a str, Refusal> {
    command[name].as_str().ok_or_else(|| Refusal::internal(format!("no {name} in {command}")))
}

/// Returns a time field of a command, if it has one.
pub fn time(command: &Value, name: &str) -> Option<std::time::Duration> {
    command[name].as_u64().map(std::time::Duration::from_millis)
}

/// Writes to the fenced resource that a command names. Returns the resource's status.
pub async fn write(command: &Value, token: u64) -> Answer {
    let body = json!({"fencing_token": token, "value": command["value"]});
    let url = text(command, "url")?.trim_start_matches("http://");
    let (address, path) = url.split_once('/').unwrap_or((url, ""));
    let client = leasehold_testkit::Client::new(address.parse().map_err(Refusal::internal)?);
    let answer = client.post(&format!("/{path}"), body).await.map_err(Refusal::internal)?;
    Ok(json!({"status": answer.status}))
}
