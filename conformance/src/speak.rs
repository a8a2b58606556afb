//! What drivers written in Rust share: reading commands, answering them, and errors by the names of the protocol.

use std::io::Write;

use leasehold::Error;
use leasehold::api::{Code, Reason};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

/// What a command comes to.
pub type Answer = Result<Value, Refusal>;

/// The `error` of an answer.
#[derive(Debug)]
pub struct Refusal(pub Value);

impl Refusal {
    /// An error by its name.
    pub fn new(name: &str, message: impl std::fmt::Display) -> Self {
        Self(json!({"name": name, "message": message.to_string()}))
    }

    /// The harness and the driver do not agree on what there is.
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

/// Obeys every command on stdin, all at the same time, until it ends. Then the process does, at once: nothing is given
/// back, because whoever ends it wants to see what becomes of that.
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

/// One line, whole and at once.
pub fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{message}");
    let _ = out.flush();
}

/// A text of a command that must be there.
pub fn text<'a>(command: &'a Value, name: &str) -> Result<&'a str, Refusal> {
    command[name].as_str().ok_or_else(|| Refusal::internal(format!("no {name} in {command}")))
}

/// A time of a command, if it is given.
pub fn time(command: &Value, name: &str) -> Option<std::time::Duration> {
    command[name].as_u64().map(std::time::Duration::from_millis)
}

/// Writes to the fenced resource that a command names. Its answer is that of the command.
pub async fn write(command: &Value, token: u64) -> Answer {
    let body = json!({"fencing_token": token, "value": command["value"]});
    let url = text(command, "url")?.trim_start_matches("http://");
    let (address, path) = url.split_once('/').unwrap_or((url, ""));
    let client = leasehold_testkit::Client::new(address.parse().map_err(Refusal::internal)?);
    let answer = client.post(&format!("/{path}"), body).await.map_err(Refusal::internal)?;
    Ok(json!({"status": answer.status}))
}
