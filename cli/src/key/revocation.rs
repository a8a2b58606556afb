//! `leasehold key revoke`: removes a key from the key file and from the server, and ends its leases. Every step can be
//! repeated, so the same command finishes an interrupted revocation.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leasehold::api::RevokeAllRequest;
use leasehold::{Client, Error};
use leasehold_auth::{PREFIX, Policy, RELOAD_EVERY};
use serde_json::json;

use super::{RevokeKeyArgs, parse};
use crate::exit::{Failure, USAGE};
use crate::key_file::{self, Files};
use crate::output::{print, print_json};

/// Time limit for the server to reload its files.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The keys to revoke that were still in the file.
struct Revoked {
    ids: Vec<String>,
    auth: PathBuf,
}

/// Removes the keys from the file, waits until the server rejects them, and ends their leases if requested.
pub(super) async fn revoke(args: &RevokeKeyArgs) -> Result<(), Failure> {
    let revoked = take_out(args)?;
    let n = revoked.ids.len();
    if !args.server.has_credential()? {
        let every = RELOAD_EVERY.as_secs();
        let note = format!(
            "took {n} key(s) out of the file. No server was asked whether it has read that, which needs an admin's \
             key (LEASEHOLD_API_KEY, --url); running servers look every {every} s"
        );
        return show(args, &revoked, &note, false, None);
    }
    let unfinished = |failure: Failure| match args.end_leases {
        true => failure.and("; no lease was ended: repeat the command to finish it"),
        false => failure,
    };
    let client = args.server.reach().await.map_err(|failure| {
        unfinished(failure.and(&format!("; took {n} key(s) out of the file all the same")))
    })?;
    taken_over(args, &client, &revoked).await.map_err(unfinished)?;
    let n_ended = match &args.name {
        Some(name) if args.end_leases => {
            Some(end_leases(&client, name).await.map_err(|error| unfinished(error.into()))?)
        }
        _ => None,
    };
    let mut note = match n {
        0 => "no key of that name is in the file".into(),
        n => format!("revoked {n} key(s); the server at {} refuses them", args.server.url),
    };
    if let Some(n_ended) = n_ended {
        note += &format!("\nended {n_ended} leases");
    }
    show(args, &revoked, &note, true, n_ended)
}

fn show(
    args: &RevokeKeyArgs,
    revoked: &Revoked,
    note: &str,
    is_refused: bool,
    n_ended: Option<u64>,
) -> Result<(), Failure> {
    if !args.output.json {
        return print(note);
    }
    print_json(&json!({
        "revoked_ids": revoked.ids, "refused_by_server": is_refused, "ended_leases": n_ended,
    }))
}

/// Removes the keys from the file. Invalid requests fail before anything is changed.
fn take_out(args: &RevokeKeyArgs) -> Result<Revoked, Failure> {
    let files = Files::lock(&args.file.auth_file)?;
    let mut table = parse(&files)?;
    let is_meant = |key: &toml::Value| {
        let is = |member: &str, wanted: &Option<String>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| key.get(member).and_then(|v| v.as_str()) == Some(wanted))
        };
        is("name", &args.name) && is("id", &args.id)
    };
    let mut ids: Vec<String> = Vec::new();
    if let Some(keys) = table.get_mut("key").and_then(|keys| keys.as_array_mut()) {
        let id = |key: &toml::Value| key.get("id")?.as_str().map(str::to_owned);
        ids.extend(keys.iter().filter(|key| is_meant(key)).filter_map(id));
        keys.retain(|key| !is_meant(key));
    }
    if args.end_leases && !args.server.has_credential()? {
        let why = "--end-leases: needs an admin's key (LEASEHOLD_API_KEY, --api-key-file) or client certificate";
        return Err(Failure::new(USAGE, why));
    }
    if args.end_leases && is_own(args, &ids)? {
        let why = "--end-leases: the key that asks is one of those to be revoked, and could not end leases then; ask \
                   with another admin's key";
        return Err(Failure::new(USAGE, why));
    }
    // With --end-leases, an earlier attempt might have removed the key already.
    if ids.is_empty() && !args.end_leases {
        return Err(Failure::from(format!("{}: there is no such key", files.keys.display())));
    }
    if !ids.is_empty() {
        key_file::write(&files.keys, &table.to_string())?;
    }
    // A server could not load invalid files, so the key would stay valid.
    Policy::load(&files.auth)?;
    Ok(Revoked { ids, auth: files.auth.clone() })
}

/// Returns whether the key of this request is one of the revoked keys.
fn is_own(args: &RevokeKeyArgs, ids: &[String]) -> Result<bool, Failure> {
    let Some(own) = args.server.api_key()? else { return Ok(false) };
    Ok(ids.iter().any(|id| own.starts_with(&format!("{PREFIX}{id}_"))))
}

/// Waits until the server has reloaded the files. Only then is the key certain to be rejected.
async fn taken_over(
    args: &RevokeKeyArgs,
    client: &Client,
    revoked: &Revoked,
) -> Result<(), Failure> {
    let (n, url) = (revoked.ids.len(), &args.server.url);
    let is_own = is_own(args, &revoked.ids)?;
    let began = Instant::now();
    let failed = |why: &str| {
        Failure::from(format!(
            "took {n} key(s) out of the file, but it is not known whether the server at {url} has read that: {why}"
        ))
    };
    loop {
        let why = match client.auth_state().await {
            Ok(state) if state.hash == Some(hash(&revoked.auth)?) => return Ok(()),
            Ok(_) => "it goes by other files; is its --auth-file this one?".into(),
            // The revoked key itself sent the request. A 401 shows that the server now rejects it.
            Err(Error::Failed { status: 401, .. }) if is_own => return Ok(()),
            Err(error) if error.is_retryable() => error.to_string(),
            Err(error) => return Err(failed(&error.to_string())),
        };
        if began.elapsed() >= TAKEN_OVER_WITHIN {
            let within = TAKEN_OVER_WITHIN.as_secs();
            return Err(failed(&format!("after {within} s {why}")));
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Returns the hash of the current files: other processes might change them in the meantime.
fn hash(auth: &Path) -> Result<String, Failure> {
    Ok(Policy::load(auth)?.hash().to_owned())
}

async fn end_leases(client: &Client, name: &str) -> Result<u64, Error> {
    let request = RevokeAllRequest {
        owner: None,
        session: None,
        principal: Some(format!("key:{name}")),
        reason: "its key was revoked".into(),
        dry_run: false,
    };
    Ok(client.revoke_all(&request).await?.n_revoked)
}
