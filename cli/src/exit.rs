//! Every exit status of `leasehold`, in one place, and errors as exit statuses. `docs/reference/errors.md` lists them
//! for users.

use std::process::ExitCode;

use leasehold::Error;
use leasehold::api::{Code, Reason};
use serde_json::{Value, json};

use crate::output::{plain, say};

/// Any error without its own status.
pub(crate) const FAILED: u8 = 1;
/// Another owner holds the lock. `-E` sets another status for `run`.
pub(crate) const CONFLICT: u8 = 1;
/// Invalid usage: `EX_USAGE`.
pub(crate) const USAGE: u8 = 64;
/// The server cannot be reached, or cannot answer now: `EX_NOHOST`.
pub(crate) const UNREACHABLE: u8 = 68;
/// The command cannot be started: `EX_UNAVAILABLE`, as in `flock`.
pub(crate) const NOT_STARTED: u8 = 69;
/// `load` found a broken guarantee: `EX_SOFTWARE`.
pub(crate) const BROKEN: u8 = 70;
/// The operating system refused something that should work: `EX_OSERR`.
pub(crate) const SYSTEM: u8 = 71;
/// The lease or session has ended, or was lost while the command ran: `EX_TEMPFAIL`.
pub(crate) const LOST: u8 = 75;
/// The server rejected the request, or is not a Leasehold server: `EX_PROTOCOL`.
pub(crate) const REFUSED: u8 = 76;
/// Unauthenticated or forbidden: `EX_NOPERM`.
pub(crate) const FORBIDDEN: u8 = 77;
/// The command ran longer than `--at-most`: 124, as in `timeout`.
pub(crate) const TOO_LONG: u8 = 124;
/// Ended by a signal: the status is this plus the number of the signal.
pub(crate) const SIGNAL: u8 = 128;

/// An exit status and its meaning, for the manual.
pub(crate) struct Status {
    pub(crate) status: &'static str,
    pub(crate) meaning: &'static str,
    whose: Whose,
}

/// The commands that can exit with a status.
enum Whose {
    All,
    /// Commands that send requests to a server.
    Asking,
    Of(&'static [&'static str]),
}

/// Commands that send requests to a server, by their full names.
const ASKING: [&str; 14] = [
    "run",
    "acquire",
    "renew",
    "release",
    "status",
    "ls",
    "watch",
    "history",
    "revoke",
    "session",
    "state",
    "load",
    "backup",
    "key revoke",
];

/// Every status except the last, in ascending order.
const STATUSES: [Status; 19] = [
    all("0", "It worked."),
    of(
        &["run"],
        "1",
        "The lock is held by another owner (-E sets another status), or an error without its own status.",
    ),
    of(&["acquire"], "1", "The lock is held by another owner, or an error without its own status."),
    of(
        &["status"],
        "1",
        "With --exit-code: the lock is held, reserved or waited for. Or an error without its own status.",
    ),
    of(&["state"], "1", "The state is locked, or an error without its own status."),
    of(&["load"], "1", "No lock was ever acquired, or an error without its own status."),
    of(
        &["doctor"],
        "1",
        "Something has to be changed; with --strict, even if there are only warnings.",
    ),
    all("1", "An error without its own status."),
    all("64", "Invalid usage, including values that the server rejects."),
    asking("68", "The server cannot be reached, or is unavailable."),
    of(&["run"], "69", "The command cannot be started."),
    of(&["load"], "70", "The server broke a guarantee."),
    all("71", "The system refused something, such as another process."),
    of(
        &["run", "acquire", "renew", "release", "session"],
        "75",
        "The lock was lost: the lease or the session has ended.",
    ),
    asking("76", "The server rejected the request, or is not a Leasehold server."),
    asking("77", "Unauthenticated or forbidden."),
    of(&["check-config"], "77", "With --as: the principal lacks that right."),
    of(&["run"], "124", "The command took longer than --at-most."),
    of(&["run"], "128+N", "Signal N ended the command."),
];

/// The last status: every command that prints can exit with it.
const UNREAD: Status = all("141", "The reader of the output closed the pipe.");

const fn all(status: &'static str, meaning: &'static str) -> Status {
    Status { status, meaning, whose: Whose::All }
}

const fn asking(status: &'static str, meaning: &'static str) -> Status {
    Status { status, meaning, whose: Whose::Asking }
}

const fn of(
    commands: &'static [&'static str],
    status: &'static str,
    meaning: &'static str,
) -> Status {
    Status { status, meaning, whose: Whose::Of(commands) }
}

/// Returns the statuses that a command can exit with, each once. A group of commands has those of all its
/// subcommands. An empty name stands for `leasehold` as a whole and has all statuses.
pub(crate) fn statuses(command: &str) -> Vec<&'static Status> {
    // A group matches its subcommands, and a subcommand matches its group.
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let is_one = |other: &&str| within(command, other) || within(other, command);
    let can_end_so = |status: &&Status| match status.whose {
        Whose::All => true,
        _ if command.is_empty() => true,
        Whose::Asking => ASKING.iter().any(&is_one),
        Whose::Of(commands) => commands.iter().any(&is_one),
    };
    let mut found: Vec<&Status> = Vec::new();
    for status in STATUSES.iter().chain([&UNREAD]).filter(can_end_so) {
        let is_known = found.last().is_some_and(|last| last.status == status.status);
        if !is_known {
            found.push(status);
        }
    }
    found
}

/// A failed command: its exit status and message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) why: String,
    /// The response of the server, for `--json`.
    pub(crate) answer: Option<Value>,
}

impl Failure {
    pub(crate) fn new(status: u8, why: impl ToString) -> Self {
        Self { status, why: why.to_string(), answer: None }
    }

    /// Returns a failure without a message.
    pub(crate) fn silent(status: u8) -> Self {
        Self::new(status, "")
    }

    /// Returns the same failure with `more` appended to the message.
    pub(crate) fn and(self, more: &str) -> Self {
        Self::new(self.status, self.why + more)
    }

    /// Returns the failure as JSON.
    pub(crate) fn json(&self) -> Value {
        self.answer.clone().unwrap_or_else(|| json!({"error": self.why}))
    }

    /// Prints the message and returns the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.why.is_empty() {
            let lines: Vec<_> = self.why.lines().map(plain).collect();
            say(&format!("leasehold: {}", lines.join("\n")));
        }
        ExitCode::from(self.status)
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::new(FAILED, why)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            // The server could not tell whether the lock is held.
            Error::NotAcquired(no) if no.reason == Reason::BusyRetry => UNREACHABLE,
            Error::NotAcquired(_) => CONFLICT,
            Error::NotRenewed(_) | Error::NotRenewedAll(_) | Error::NotReleased(_) => LOST,
            Error::Invalid(_) => USAGE,
            // A retry does not help, but the server counts as unreachable.
            Error::Untrusted(_) => UNREACHABLE,
            Error::Failed { status: 401 | 403, .. } => FORBIDDEN,
            Error::Failed { failure, .. } if failure.code == Code::NoSuchSession => LOST,
            Error::Failed { failure, .. } if failure.code == Code::InvalidRequest => USAGE,
            error if error.is_retryable() => UNREACHABLE,
            _ => REFUSED,
        };
        let mut why = as_typed(error.to_string());
        match error {
            Error::Unreachable(_) => why += " (--url, LEASEHOLD_URL)",
            Error::Foreign { .. } => {
                why += ". Is this address another server or a proxy? (--url, LEASEHOLD_URL)";
            }
            _ => {}
        }
        Self { answer: Some(answer(&error)), ..Self::new(status, plain(&why)) }
    }
}

/// The flag for each field of a request.
const FLAGS: [(&str, &str); 8] = [
    ("ttl_ms", "--ttl"),
    ("extend_by_ms", "--ttl"),
    ("wait_ms", "--wait"),
    ("grace_ms", "--grace"),
    ("owner_id", "--owner"),
    ("request_id", "--request-id"),
    ("metadata", "--metadata"),
    ("limit", "--limit"),
];

/// Replaces the field name at the start of an error by the flag that the user typed.
fn as_typed(why: String) -> String {
    FLAGS
        .iter()
        .find_map(|(field, flag)| {
            let rest = why.strip_prefix(field)?;
            rest.starts_with([':', ' ']).then(|| format!("{flag}{rest}"))
        })
        .unwrap_or(why)
}

/// Returns the response of the server if there is one, or else the error as JSON.
fn answer(error: &Error) -> Value {
    let said = match error {
        Error::NotAcquired(no) => serde_json::to_value(no).ok(),
        Error::NotRenewed(no) => serde_json::to_value(no).ok(),
        Error::NotRenewedAll(no) => serde_json::to_value(no).ok(),
        Error::NotReleased(no) => serde_json::to_value(no).ok(),
        Error::Failed { failure, .. } => serde_json::to_value(failure).ok(),
        _ => None,
    };
    said.unwrap_or_else(|| {
        json!({
            "error": error.to_string(),
            "retryable": error.is_retryable(),
            "may_have_taken_effect": error.may_have_taken_effect(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_cannot_be_verified_is_a_server_that_cannot_be_reached() {
        let error = Error::Untrusted("https://a: not trusted here".into());
        assert!(!error.is_retryable());
        assert_eq!(Failure::from(error).status, UNREACHABLE);
    }

    #[test]
    fn each_command_has_its_own_statuses() {
        let of = |command: &str| -> Vec<_> {
            statuses(command).iter().map(|status| status.status).collect()
        };
        assert_eq!(of("revoke"), ["0", "1", "64", "68", "71", "76", "77", "141"]);
        assert_eq!(of("verify"), ["0", "1", "64", "71", "141"]);
        assert_eq!(of("key list"), of("verify"));
        assert_eq!(of("key revoke"), of("revoke"));
        assert_eq!(of("key"), of("revoke"), "a group has those of all in it");
        assert_eq!(of("session open"), of("session"));
        assert!(of("session").contains(&"75"));
        let (whole, mut run) = (of(""), of("run"));
        run.insert(5, "70");
        assert_eq!(whole, run, "every status there is");
        assert!(statuses("doctor")[1].meaning.contains("--strict"));
    }
}
