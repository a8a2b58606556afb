//! `leasehold acquire`: acquires a lock for a script. Nothing renews the lease.

use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use leasehold::api::{AcquireRequest, Acquired, CancelRequest, Mode, ReleaseRequest};
use leasehold::{Client, Error};
use serde_json::Value;

use crate::ask::{ask, persist_for};
use crate::connection::ServerArgs;
use crate::duration::{DurationArg, glance, lasting};
use crate::exit::{Failure, SYSTEM};
use crate::interrupt::{Ending, interruption};
use crate::output::{OutputArgs, exports, plain, print, print_json, warn_short};
use crate::owner::OwnerArgs;
use crate::proof::request_id;

const TTL_DEFAULT: DurationArg = DurationArg(Duration::from_secs(30));

/// Time limit for cancelling a wait, or for releasing a lock that could not be reported.
const LEAVE_MAX: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  leasehold acquire nightly --ttl 10m
  leasehold acquire nightly --ttl 10m --wait 30 --json

In a script, stop if the lock is not acquired:
  lease=$(leasehold acquire nightly --ttl 10m --env) || exit
  eval \"$lease\"
  ...                # before the TTL ends: leasehold renew --ttl 10m
  leasehold release

To hold a lock while a command runs, use `leasehold run`: it renews the lease, and ends the command if the lock is
lost.

Exit status: 0 the lock is acquired; 1 another owner holds it; 68 the server cannot be reached; see
docs/reference/errors.md for the rest.";

/// Acquire a lock and leave it held.
///
/// Nothing renews the lease: the lock is yours until its TTL ends, or until `leasehold release`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AcquireArgs {
    /// Name of the lock.
    lock: String,
    /// Duration of the lease [default: 30s, or until the session ends]
    #[arg(long, value_parser = lasting)]
    ttl: Option<DurationArg>,
    /// How long to wait in the queue, in seconds or with a unit [default: do not wait]
    #[arg(short, long, value_name = "SECONDS")]
    wait: Option<DurationArg>,
    /// Share the lock with other holders that use --shared.
    #[arg(short, long, conflicts_with = "limit")]
    shared: bool,
    /// Allow up to N holders at once; all must pass the same N.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// How long the lock stays reserved for this owner if the lease expires.
    #[arg(long)]
    grace: Option<DurationArg>,
    /// JSON that is shown with the lock.
    #[arg(long, value_name = "JSON", value_parser = crate::json::parse)]
    metadata: Option<Value>,
    /// Session that the lease belongs to and ends with; see `leasehold session`.
    #[arg(long, value_name = "ID", env = "LEASEHOLD_SESSION", hide_env_values = true)]
    session: Option<String>,
    /// Request id; repeating a request with the same id is safe [default: random]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Print shell commands for `eval`.
    #[arg(long, conflicts_with = "json")]
    env: bool,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn acquire(args: &AcquireArgs) -> Result<ExitCode, Failure> {
    let ending = ask(args.output, asked(args))?;
    Ok(ending.map_or(ExitCode::SUCCESS, Ending::end))
}

/// Acquires the lock and prints it. Returns how to exit if a signal interrupted the wait.
async fn asked(args: &AcquireArgs) -> Result<Option<Ending>, Failure> {
    let client = args.server.reach().await?;
    let question = args.question();
    let mut granted = pin!(granted(&client, args, &question));
    let answer = if args.wait.is_none() {
        granted.await
    } else {
        let interruption = interruption().map_err(|error| Failure::new(SYSTEM, error))?;
        tokio::select! {
            answer = &mut granted => answer,
            ending = interruption => {
                let leaving = leave(&client, args, &question, granted);
                let _ = tokio::time::timeout(LEAVE_MAX, leaving).await;
                return Ok(Some(ending));
            }
        }
    };
    let acquired = answer.map_err(|error| not_granted(args, error))?;
    if args.session.is_none() {
        warn_short(&client, args.ttl.unwrap_or(TTL_DEFAULT).0, Duration::ZERO);
    }
    match show(args, &acquired) {
        Ok(()) => Ok(None),
        // The caller did not receive the lease id, so it could not release the lock.
        Err(failure) => Err(unseen(&client, args, acquired, failure).await),
    }
}

/// Releases a lock whose details could not be printed, and adds the outcome to the error message.
async fn unseen(
    client: &Client,
    args: &AcquireArgs,
    acquired: Acquired,
    failure: Failure,
) -> Failure {
    let released = tokio::time::timeout(LEAVE_MAX, give_back(client, args, acquired)).await;
    if failure.why.is_empty() {
        return failure;
    }
    let lock = plain(&args.lock);
    failure.and(&match released {
        Ok(Ok(())) => format!(": could not write the result, so {lock} was released"),
        _ => {
            format!(": could not write the result; {lock} was not released and will expire")
        }
    })
}

/// Leaves the queue, and releases the lock if it was granted in the meantime.
async fn leave(
    client: &Client,
    args: &AcquireArgs,
    question: &AcquireRequest,
    granted: Pin<&mut impl Future<Output = Result<Acquired, Error>>>,
) {
    let owner_id = question.owner_id.clone();
    let request_id = question.request_id.clone().unwrap_or_default();
    let cancel = CancelRequest { owner_id, request_id };
    let (_, answer) = tokio::join!(client.cancel(&cancel), granted);
    if let Ok(acquired) = answer {
        // If the release fails, the lease expires on its own.
        let _ = give_back(client, args, acquired).await;
    }
}

async fn give_back(client: &Client, args: &AcquireArgs, acquired: Acquired) -> Result<(), Error> {
    let Acquired { owner_id, lease_id, fencing_token, .. } = acquired;
    let release = ReleaseRequest { owner_id, lease_id, fencing_token, request_id: None };
    client.release(&args.lock, &release).await.map(drop)
}

async fn granted(
    client: &Client,
    args: &AcquireArgs,
    question: &AcquireRequest,
) -> Result<Acquired, Error> {
    let asked_at = Instant::now();
    persist_for(args.wait.map_or(Duration::ZERO, |wait| wait.0), || {
        let left =
            args.wait.map(|DurationArg(wait)| DurationArg(wait.saturating_sub(asked_at.elapsed())));
        let question =
            AcquireRequest { wait_ms: left.map(DurationArg::millis), ..question.clone() };
        async move {
            let sent_at = Instant::now();
            // A server that went silent must not take up the whole wait.
            let acquired = client.acquire_in_slice(&args.lock, &question).await?;
            let mut acquired = acquired.ok_or_else(|| Error::Broken("no response yet".into()))?;
            // The response took some time to arrive. The time left now is at most what is left of the safe bound.
            let since = DurationArg(sent_at.elapsed()).millis();
            let bound = acquired.expires_after_send_ms.map(|ms| ms.saturating_sub(since));
            acquired.expires_in_ms = acquired.expires_in_ms.min(bound);
            Ok(acquired)
        }
    })
    .await
}

impl AcquireArgs {
    fn question(&self) -> AcquireRequest {
        let ttl = self.ttl.or(self.session.is_none().then_some(TTL_DEFAULT));
        AcquireRequest {
            owner_id: self.owner.name(),
            ttl_ms: ttl.map(DurationArg::millis),
            request_id: Some(self.request_id.clone().unwrap_or_else(request_id)),
            wait_ms: None,
            mode: self.shared.then_some(Mode::Shared),
            limit: self.limit,
            grace_ms: self.grace.map(DurationArg::millis),
            metadata: self.metadata.clone(),
            session_id: self.session.clone(),
        }
    }
}

fn not_granted(args: &AcquireArgs, error: Error) -> Failure {
    let is_conflict = error.is_conflict();
    let mut failure = Failure::from(error);
    if is_conflict {
        failure.why = format!("{}: {}", plain(&args.lock), failure.why);
    }
    failure
}

fn show(args: &AcquireArgs, acquired: &Acquired) -> Result<(), Failure> {
    if args.output.json {
        return print_json(acquired);
    }
    let Acquired { lock_name, owner_id, lease_id, fencing_token, expires_in_ms, .. } = acquired;
    let token = fencing_token.to_string();
    if args.env {
        let lease = [
            ("LEASEHOLD_LOCK", lock_name.as_str()),
            ("LEASEHOLD_OWNER", owner_id),
            ("LEASEHOLD_LEASE_ID", lease_id),
            ("LEASEHOLD_FENCING_TOKEN", &token),
        ];
        return print(&exports(&[&lease[..], &args.server.exports()].concat()));
    }
    let left = expires_in_ms.map_or("indefinitely".into(), |ms| glance(Duration::from_millis(ms)));
    let [lock, owner, lease_id] = [lock_name, owner_id, lease_id].map(|text| plain(text));
    print(&format!(
        "{lock} is acquired\n  owner     {owner}\n  lease id  {lease_id}\n  token     {token}\n  left      {left}"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use clap::Parser;
    use leasehold::clock::FakeClock;
    use leasehold_testkit::{fake, json};

    use super::*;

    #[derive(Parser, Debug)]
    struct Command {
        #[command(flatten)]
        args: AcquireArgs,
    }

    #[tokio::test]
    async fn a_wait_at_a_server_that_went_silent_continues_at_the_next_url() {
        let asked = Arc::<Mutex<Vec<Value>>>::default();
        let silent = {
            let asked = asked.clone();
            fake::serve(move |question| -> (u16, Value) {
                if question.line.starts_with("POST") {
                    asked.lock().unwrap().push(question.body.clone());
                }
                loop {
                    std::thread::park();
                }
            })
        };
        let next = {
            let asked = asked.clone();
            fake::serve(move |question| {
                asked.lock().unwrap().push(question.body.clone());
                let granted = json!({
                    "acquired": true, "lock_name": "a", "owner_id": "o", "lease_id": "l", "fencing_token": 7,
                    "expires_in_ms": 30_000, "expires_after_send_ms": 30_000, "mode": "exclusive",
                });
                (200, granted)
            })
        };
        let clock = FakeClock::default();
        let client = Client::builder(&format!("{silent},{next}"));
        let client = client.clock(clock.clone()).timeout(Duration::from_secs(1)).build().unwrap();
        let args = Command::parse_from(["acquire", "a", "--wait", "1h"]).args;
        let question = args.question();
        let passing = async {
            while asked.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            clock.advance(Duration::from_secs(31));
            std::future::pending::<()>().await;
        };
        let acquired = tokio::select! {
            acquired = tokio::time::timeout(Duration::from_secs(60), granted(&client, &args, &question)) => acquired,
            () = passing => unreachable!("it is pending"),
        };
        assert_eq!(acquired.expect("in time").unwrap().fencing_token, 7);
        let asked = asked.lock().unwrap();
        let ids: Vec<_> = asked.iter().map(|asked| asked["request_id"].clone()).collect();
        assert_eq!(ids, [ids[0].clone(), ids[0].clone()], "the same request");
        assert!(
            ids[0].is_string()
                && asked.iter().all(|asked| asked["wait_ms"].as_u64() > Some(3_000_000))
        );
    }
}
