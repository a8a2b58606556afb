//! `leasehold audit`: prints the lines of the audit files, filtered, and can follow the files as they grow.

mod trail;

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use leasehold_server::audit;
use serde_json::Value;

use crate::ask::told;
use crate::duration::DurationArg;
use crate::exit::Failure;
use crate::output::{OutputArgs, plain, print, print_json};
use trail::Trail;

/// Interval at which the files are polled for new lines.
const LOOK_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  leasehold audit --audit-file audit.log --lock deploy --since 2h
  leasehold audit --audit-file audit.log --outcome forbidden --follow
  leasehold audit --audit-file audit.log --principal key:ci --json | jq -r .lock

The command reads the audit file, the operator file (.admin) and the refusal files (.refusals, .unknown) next to it,
and the rotated files of each, in order of time. The server can be running. --principal matches the principal that
acted and the principal of the lease. Fields under `claimed` come from the client and are not verified.";

/// Show the entries of the audit files.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    /// Audit file of the server.
    #[arg(long, env = "LEASEHOLD_AUDIT_FILE")]
    audit_file: PathBuf,
    /// Show only what this principal did, or what happened to its leases.
    #[arg(long)]
    principal: Option<String>,
    /// Show only entries about this lock.
    #[arg(long)]
    lock: Option<String>,
    /// Show only entries about this namespace.
    #[arg(long)]
    namespace: Option<String>,
    /// Show only entries from this long ago until now, such as 2h.
    #[arg(long, value_name = "DURATION")]
    since: Option<DurationArg>,
    /// Show only entries with this outcome: granted, released, revoked, expired, unauthenticated, forbidden, limited,
    /// done, ...
    #[arg(long)]
    outcome: Option<String>,
    /// Keep printing new entries until interrupted.
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn audit(args: &AuditArgs) -> Result<(), Failure> {
    told(args.output, tell(args))
}

fn tell(args: &AuditArgs) -> Result<(), Failure> {
    let since = args.since.and_then(|since| SystemTime::now().checked_sub(since.0));
    // Both times have the same format, so string order is time order.
    let since = since.map(|at| humantime::format_rfc3339_millis(at).to_string());
    File::open(&args.audit_file).map_err(|error| wrong(&args.audit_file, &error))?;
    let mut trails = audit::files(&args.audit_file).map(Trail::new);
    let mut starts = HashSet::new();
    loop {
        while let Some(entry) = next(&mut trails)? {
            // The start of a server is recorded in two of the files; it is shown once.
            let is_start = entry["act"] == "start";
            if is_start && !starts.insert((entry["at"].to_string(), entry["after"].to_string())) {
                continue;
            }
            if is_meant(args, since.as_deref(), &entry) {
                show(args.output, &entry)?;
            }
        }
        if !args.follow {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Returns the oldest unread entry of all files.
fn next(trails: &mut [Trail]) -> Result<Option<Value>, Failure> {
    for trail in trails.iter_mut() {
        trail.read()?;
    }
    let ready = trails.iter_mut().filter(|trail| trail.entry.is_some());
    let at = |trail: &&mut Trail| {
        let entry = trail.entry.as_ref();
        entry.and_then(|entry| entry["at"].as_str()).unwrap_or_default().to_owned()
    };
    Ok(ready.min_by_key(at).and_then(|trail| trail.entry.take()))
}

fn is_meant(args: &AuditArgs, since: Option<&str>, entry: &Value) -> bool {
    let is = |value: &Value, wanted: &Option<String>| {
        wanted.as_deref().is_none_or(|wanted| value == wanted)
    };
    let is_principals = args.principal.as_deref().is_none_or(|wanted| {
        entry["by"]["principal"] == wanted || entry["holder"]["principal"] == wanted
    });
    let is_late = since.is_none_or(|since| entry["at"].as_str().is_some_and(|at| at >= since));
    is_principals
        && is_late
        && is(&entry["lock"], &args.lock)
        && is(&entry["namespace"], &args.namespace)
        && is(&entry["outcome"], &args.outcome)
}

fn show(output: OutputArgs, entry: &Value) -> Result<(), Failure> {
    if output.json {
        return print_json(entry);
    }
    let text = |value: &Value| match value {
        Value::String(text) => plain(text).into_owned(),
        Value::Null => String::new(),
        other => plain(&other.to_string()).into_owned(),
    };
    let mut words = vec![text(&entry["at"]), text(&entry["outcome"])];
    words.extend(["act", "right"].map(|name| text(&entry[name])));
    if entry["lock"].is_string() {
        words.push(format!("{}/{}", text(&entry["namespace"]), text(&entry["lock"])));
    }
    let holder = &entry["holder"];
    if holder.is_object() {
        words.push(format!("{} as {}", text(&holder["principal"]), text(&holder["owner_id"])));
        words.push(format!("token {}", text(&holder["token"])));
    }
    words.push(text(&entry["route"]));
    let by =
        ["principal", "credential", "rule", "peer"].map(|name| (name, text(&entry["by"][name])));
    let by: Vec<_> = by.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    if !by.is_empty() {
        let by: Vec<_> = by.iter().map(|(name, value)| format!("{name} {value}")).collect();
        words.push(format!("by {}", by.join(", ")));
    }
    for (name, label) in [("detail", ""), ("claimed", "claimed ")] {
        if let Some(members) = entry[name].as_object() {
            let members = members.iter().map(|(name, value)| format!("{name} {}", text(value)));
            words.push(format!("({label}{})", members.collect::<Vec<_>>().join(", ")));
        }
    }
    words.retain(|word| !word.is_empty());
    print(&words.join("  "))
}

fn wrong(path: &Path, error: &std::io::Error) -> Failure {
    Failure::from(format!("{}: {error}", path.display()))
}
