//! `leasehold audit`: what an audit file says, filtered, and as it grows.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use leasehold_server::audit;
use serde_json::Value;

use crate::ask::told;
use crate::duration::DurationArg;
use crate::exit::Failure;
use crate::output::{OutputArgs, plain, print, print_json};

/// How often the file is looked at for more.
const LOOK_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  leasehold audit --audit-file audit.log --lock deploy --since 2h
  leasehold audit --audit-file audit.log --outcome forbidden --follow
  leasehold audit --audit-file audit.log --principal key:ci --json | jq -r .lock

It reads the file, also of a server that runs, and those that were put aside beside it, oldest first. --principal is
whoever did it, or whose lease it happened to. What stands under `claimed` is only what a client said.";

/// Show what an audit file says.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    /// The audit file of the server.
    #[arg(long, env = "LEASEHOLD_AUDIT_FILE")]
    audit_file: PathBuf,
    /// Only what this principal did, or what happened to its leases.
    #[arg(long)]
    principal: Option<String>,
    /// Only what happened to this lock.
    #[arg(long)]
    lock: Option<String>,
    /// Only what happened in this namespace.
    #[arg(long)]
    namespace: Option<String>,
    /// Only what happened in this time until now.
    #[arg(long, value_name = "DURATION")]
    since: Option<DurationArg>,
    /// Only with this outcome: granted, released, revoked, expired, unauthenticated, forbidden, limited, done, ...
    #[arg(long)]
    outcome: Option<String>,
    /// Go on with what is written from now on, until it is interrupted.
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
    // Both are written the same way, so the later is the larger.
    let since = since.map(|at| humantime::format_rfc3339_millis(at).to_string());
    for older in audit::rotated(&args.audit_file) {
        let Ok(file) = File::open(&older) else { continue };
        show_all(args, since.as_deref(), &mut BufReader::new(file))?;
    }
    let file = File::open(&args.audit_file).map_err(|error| wrong(&args.audit_file, &error))?;
    let mut reader = BufReader::new(file);
    show_all(args, since.as_deref(), &mut reader)?;
    if !args.follow {
        return Ok(());
    }
    loop {
        std::thread::sleep(LOOK_EVERY);
        show_all(args, since.as_deref(), &mut reader)?;
        if let Some(next) = replaced(&args.audit_file, reader.get_ref())? {
            // What was still written to the one before is shown first.
            show_all(args, since.as_deref(), &mut reader)?;
            reader = BufReader::new(next);
        }
    }
}

/// The file that has this name now, if it is another.
fn replaced(path: &Path, file: &File) -> Result<Option<File>, Failure> {
    let next = match File::open(path) {
        Ok(next) => next,
        // It is being put aside.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(path, &error)),
    };
    let of = |file: &File| file.metadata().map(|facts| (facts.dev(), facts.ino()));
    let is_same = of(&next).and_then(|next| Ok(next == of(file)?));
    let is_same = is_same.map_err(|error| wrong(path, &error))?;
    Ok((!is_same).then_some(next))
}

/// Whole lines, as many as there are.
fn show_all(
    args: &AuditArgs,
    since: Option<&str>,
    reader: &mut BufReader<File>,
) -> Result<(), Failure> {
    let mut line = String::new();
    loop {
        line.clear();
        let n = reader.read_line(&mut line).map_err(|error| wrong(&args.audit_file, &error))?;
        if !line.ends_with('\n') {
            // The rest of it is on its way.
            let back = i64::try_from(n).unwrap_or_default();
            return reader.seek_relative(-back).map_err(|error| wrong(&args.audit_file, &error));
        }
        let Ok(entry) = serde_json::from_str::<Value>(&line) else { continue };
        if is_meant(args, since, &entry) {
            show(args.output, &entry)?;
        }
    }
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
