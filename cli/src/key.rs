//! `leasehold key`: creates, lists and revokes API keys.

mod revocation;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use leasehold_auth::{NewKey, Policy, Right};
use serde_json::{Value, json};

use crate::ask::{ask, told};
use crate::connection::ServerArgs;
use crate::duration::DurationArg;
use crate::exit::{Failure, USAGE};
use crate::key_file::{self, Files};
use crate::output::{OutputArgs, plain, print, print_json};

/// Create, list and revoke API keys.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold key create --name ci-shop --may acquire --namespaces shop\n  \
                        leasehold key list\n  leasehold key revoke --name ci-shop --end-leases"
)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand, Debug)]
enum KeyCommand {
    /// Create a key and show it once. With --may and --namespaces, also add a rule for it; another key with the same
    /// name shares the rights of the first.
    #[command(
        after_help = "Example:\n  leasehold key create --name ci-shop --may acquire --namespaces shop --expires 90d"
    )]
    Create(CreateArgs),
    /// List keys, without their secrets.
    List(ListArgs),
    /// Remove a key from the key file. With an admin's credential (LEASEHOLD_API_KEY or a client certificate), wait
    /// until the server has read the change.
    #[command(after_help = "Example:\n  leasehold key revoke --name ci-shop --end-leases\n\n\
                      If a revocation could not be finished, for example because the server could not be reached, \
                      repeat the command.")]
    Revoke(Box<RevokeKeyArgs>),
}

#[derive(Args, Debug)]
struct FileArgs {
    /// The auth file; the first key file it names is changed.
    #[arg(long, env = "LEASEHOLD_AUTH_FILE", default_value = "auth.toml")]
    auth_file: PathBuf,
}

#[derive(Args, Debug)]
struct ListArgs {
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args, Debug)]
struct CreateArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Name of the key; its principal is key:NAME.
    #[arg(long)]
    name: String,
    /// The rights of a new rule for it.
    #[arg(long, value_delimiter = ',', requires = "namespaces")]
    may: Vec<Right>,
    /// The namespaces of that rule.
    #[arg(long, value_delimiter = ',', requires = "may")]
    namespaces: Vec<String>,
    /// How long the key is good for.
    #[arg(long)]
    expires: Option<DurationArg>,
    /// Only print what would be added to the files, for files that cannot be written.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args, Debug)]
struct RevokeKeyArgs {
    #[command(flatten)]
    file: FileArgs,
    /// All keys of this name.
    #[arg(long, required_unless_present = "id")]
    name: Option<String>,
    /// Only the key with this id.
    #[arg(long, conflicts_with = "name")]
    id: Option<String>,
    /// Also end all leases of the key's principal, on the server. Authenticates with LEASEHOLD_API_KEY or a client
    /// certificate, which must not be the one that is revoked.
    #[arg(long, requires = "name")]
    end_leases: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn key(args: &KeyArgs) -> Result<(), Failure> {
    match &args.command {
        KeyCommand::Create(args) => told(args.output, create(args)),
        KeyCommand::List(args) => told(args.output, list(args)),
        KeyCommand::Revoke(args) => ask(args.output, revocation::revoke(args)),
    }
}

fn create(args: &CreateArgs) -> Result<(), Failure> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._@/".contains(c);
    if args.name.is_empty() || args.name.len() > 200 || !args.name.chars().all(is_name) {
        let why = "--name: must be 1 to 200 letters, digits or -._@/";
        return Err(Failure::new(USAGE, why));
    }
    if args.expires.is_some_and(|expires| expires.0.as_secs() == 0) {
        return Err(Failure::new(USAGE, "--expires: must be at least 1s, such as 90d"));
    }
    let key = NewKey::draw();
    let expires = args.expires.map(|expires| date(expires.0.as_secs()));
    let entry = entry(&args.name, &key, expires.as_deref());
    let may: Vec<_> = args.may.iter().map(ToString::to_string).collect();
    let rule = match may.is_empty() {
        true => String::new(),
        false => rule(&args.name, &args.name, &may, &args.namespaces),
    };
    let shown = |key_entry: Option<&str>| {
        json!({
            "principal": format!("key:{}", args.name), "id": key.id, "key": key.text, "expires": expires,
            "key_entry": key_entry, "rule_entry": key_entry.map(|_| rule.trim_start()).filter(|rule| !rule.is_empty()),
        })
    };
    if args.print && args.output.json {
        return print_json(&shown(Some(entry.trim_start())));
    }
    if args.print {
        let rule = if rule.is_empty() { rule } else { format!("\n# auth.toml{rule}") };
        return print(&format!(
            "# keys.toml{entry}{rule}\n# the API key, shown only once:\n# {}",
            key.text
        ));
    }
    let files = Files::lock(&args.file.auth_file)?;
    let others = match parse(&files)?.get("key").and_then(|keys| keys.as_array()) {
        // An empty array, left after the last key was revoked, would prevent appending a key.
        Some(keys) if keys.is_empty() => String::new(),
        _ => files.keys_text()?,
    };
    key_file::write(&files.keys, &(others + &entry))?;
    if !rule.is_empty() {
        key_file::write(&files.auth, &(files.auth_text()? + &rule))?;
    }
    // Checks that a server accepts the files.
    Policy::load(&files.auth)?;
    let told = if args.output.json {
        print_json(&shown(None))
    } else {
        print(&format!("the API key of key:{}, shown only once:\n{}", args.name, key.text))
    };
    told.map_err(|failure| match failure.why.as_str() {
        "" => failure,
        why => Failure::new(
            failure.status,
            format!(
                "{why}: the new key could not be shown; revoke it with leasehold key revoke --id {}",
                key.id
            ),
        ),
    })
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let files = Files::open(&args.file.auth_file)?;
    let table: toml::Table = parse(&files)?;
    let keys = table.get("key").and_then(|keys| keys.as_array()).cloned().unwrap_or_default();
    let text = |key: &toml::Value, name: &str| {
        key.get(name).and_then(|value| value.as_str()).unwrap_or("?").to_owned()
    };
    let expires = |key: &toml::Value| key.get("expires").map(ToString::to_string);
    if args.output.json {
        // One line for each key, like `ls`.
        let shown = |key: &toml::Value| -> Value {
            json!({"name": text(key, "name"), "id": text(key, "id"), "expires": expires(key)})
        };
        return keys.iter().map(shown).try_for_each(|key| print_json(&key));
    }
    let line = |key: &toml::Value| {
        let expires = expires(key).unwrap_or_else(|| "never".into());
        format!("{}  id {}  expires {expires}", plain(&text(key, "name")), plain(&text(key, "id")))
    };
    let lines: Vec<_> = keys.iter().map(line).collect();
    print(&if lines.is_empty() { "no keys".into() } else { lines.join("\n") })
}

fn parse(files: &Files) -> Result<toml::Table, String> {
    files.keys_text()?.parse().map_err(|error| format!("{}: {error}", files.keys.display()))
}

/// Returns the entry of a key in the key file.
pub(crate) fn entry(name: &str, key: &NewKey, expires: Option<&str>) -> String {
    let NewKey { id, sha256, .. } = key;
    let expires = expires.map_or(String::new(), |at| format!("expires = {at}\n"));
    format!("\n[[key]]\nname = {}\nid = \"{id}\"\nsha256 = \"{sha256}\"\n{expires}", quoted(name))
}

/// Returns the entry of a rule in the auth file.
pub(crate) fn rule(name: &str, key: &str, may: &[String], namespaces: &[String]) -> String {
    let list =
        |texts: &[String]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
    format!(
        "\n[[rule]]\nname = {}\nwho = [{}]\nmay = [{}]\nnamespaces = [{}]\n",
        quoted(name),
        quoted(&format!("key:{key}")),
        list(may),
        list(namespaces)
    )
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

/// Returns the time this many seconds from now, as TOML.
fn date(seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let at = UNIX_EPOCH + std::time::Duration::from_secs(now + seconds);
    humantime::format_rfc3339_seconds(at).to_string()
}
