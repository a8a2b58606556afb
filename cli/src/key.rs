//! `leasehold key`: API keys.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use leasehold::Error;
use leasehold::api::RevokeAllRequest;
use leasehold_server::auth::{NewKey, PREFIX, Policy, RELOAD_EVERY, Right};

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::duration::DurationArg;
use crate::exit::{Failure, USAGE};
use crate::key_file::{self, Files};
use crate::output::{OutputArgs, plain, print};

/// How long a server may take to read its files anew before it counts as one that does not.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Make, list and revoke API keys.
#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand, Debug)]
enum KeyCommand {
    /// Make a key and show it once. With --may and --namespaces it also gets a rule; a second key of a name keeps
    /// what the first has.
    #[command(
        after_help = "Example:\n  leasehold key create --name ci-shop --may acquire --namespaces shop --expires 90d"
    )]
    Create(CreateArgs),
    /// Show the keys there are, without their secrets.
    List(FileArgs),
    /// Take a key out of the file. With an admin's key (LEASEHOLD_API_KEY), wait until the server says that it has
    /// read it.
    #[command(after_help = "Example:\n  leasehold key revoke --name ci-shop --end-leases")]
    Revoke(RevokeArgs),
}

#[derive(Args, Debug)]
struct FileArgs {
    /// The auth file; the first key file it names is changed.
    #[arg(long, env = "LEASEHOLD_AUTH_FILE", default_value = "auth.toml")]
    auth_file: PathBuf,
}

#[derive(Args, Debug)]
struct CreateArgs {
    #[command(flatten)]
    file: FileArgs,
    /// What the key is called: its principal is key:NAME.
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
}

#[derive(Args, Debug)]
struct RevokeArgs {
    #[command(flatten)]
    file: FileArgs,
    /// All keys of this name.
    #[arg(long, required_unless_present = "id")]
    name: Option<String>,
    /// Only the key with this id.
    #[arg(long, conflicts_with = "name")]
    id: Option<String>,
    /// Have the server also end every lease of the key's principal. Asks with LEASEHOLD_API_KEY.
    #[arg(long, requires = "name")]
    end_leases: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn key(args: &KeyArgs) -> Result<(), Failure> {
    match &args.command {
        KeyCommand::Create(args) => create(args),
        KeyCommand::List(args) => list(args),
        KeyCommand::Revoke(args) => revoke(args),
    }
}

fn create(args: &CreateArgs) -> Result<(), Failure> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._@/".contains(c);
    if args.name.is_empty() || args.name.len() > 200 || !args.name.chars().all(is_name) {
        let why = "--name: must be 1 to 200 of letters, digits, and -._@/";
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
    if args.print {
        let rule = if rule.is_empty() { rule } else { format!("\n# auth.toml{rule}") };
        return print(&format!(
            "# keys.toml{entry}{rule}\n# the key, shown only now:\n# {}",
            key.text
        ));
    }
    let files = Files::lock(&args.file.auth_file)?;
    let others = match parse(&files)?.get("key").and_then(|keys| keys.as_array()) {
        // What the last key that was revoked left behind cannot be appended to.
        Some(keys) if keys.is_empty() => String::new(),
        _ => files.keys_text()?,
    };
    key_file::write(&files.keys, &(others + &entry))?;
    if !rule.is_empty() {
        key_file::write(&files.auth, &(files.auth_text()? + &rule))?;
    }
    // What was just written must be what a server takes.
    Policy::load(&files.auth)?;
    print(&format!("the key of key:{}, shown only now:\n{}", args.name, key.text))
}

fn list(args: &FileArgs) -> Result<(), Failure> {
    let files = Files::open(&args.auth_file)?;
    let table: toml::Table = parse(&files)?;
    let keys = table.get("key").and_then(|keys| keys.as_array()).cloned().unwrap_or_default();
    let line = |key: &toml::Value| {
        let text =
            |name: &str| key.get(name).and_then(|value| value.as_str()).unwrap_or("?").to_owned();
        let expires = key.get("expires").map_or("never".into(), |at| at.to_string());
        format!("{}  id {}  expires {expires}", plain(&text("name")), plain(&text("id")))
    };
    let lines: Vec<_> = keys.iter().map(line).collect();
    print(&if lines.is_empty() { "no keys".into() } else { lines.join("\n") })
}

fn parse(files: &Files) -> Result<toml::Table, String> {
    files.keys_text()?.parse().map_err(|error| format!("{}: {error}", files.keys.display()))
}

fn revoke(args: &RevokeArgs) -> Result<(), Failure> {
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
    if ids.is_empty() {
        return Err(Failure::from(format!("{}: there is no such key", files.keys.display())));
    }
    key_file::write(&files.keys, &table.to_string())?;
    // Files that a server cannot use would leave the key in force.
    Policy::load(&files.auth)?;
    let path = files.auth.clone();
    drop(files);
    ask(args.output, taken_over(args, &path, &ids))?;
    match &args.name {
        Some(name) if args.end_leases => end_leases(args, name),
        _ => Ok(()),
    }
}

/// Waits until the server has read the files. Whoever is told that a key is revoked must be able to rely on it.
async fn taken_over(args: &RevokeArgs, auth: &Path, revoked: &[String]) -> Result<(), Failure> {
    let (n, url) = (revoked.len(), &args.server.url);
    let Some(own) = args.server.api_key()? else {
        let every = RELOAD_EVERY.as_secs();
        return print(&format!(
            "took {n} key(s) out of the file. No server was asked whether it has read that, which needs an admin's \
             key (LEASEHOLD_API_KEY, --url); running servers look every {every} s"
        ));
    };
    let is_own = revoked.iter().any(|id| own.starts_with(&format!("{PREFIX}{id}_")));
    let client = args.server.reach().await?;
    let began = Instant::now();
    let failed = |why: &str| {
        Failure::from(format!(
            "took {n} key(s) out of the file, but it is not known whether the server at {url} has read that: {why}"
        ))
    };
    loop {
        let why = match client.auth_state().await {
            Ok(state) => {
                // Others may change the files meanwhile.
                let hash = Policy::load(auth)?.hash().to_owned();
                if state.hash.is_some_and(|known| known == hash) {
                    return print(&format!("revoked {n} key(s); the server at {url} refuses them"));
                }
                "it goes by other files; is its --auth-file this one?".into()
            }
            // The key that asks is one of those: that it is refused is the answer.
            Err(Error::Failed { status: 401, .. }) if is_own => {
                return print(&format!("revoked {n} key(s); the server at {url} refuses them"));
            }
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

fn end_leases(args: &RevokeArgs, name: &str) -> Result<(), Failure> {
    let request = RevokeAllRequest {
        owner: None,
        session: None,
        principal: Some(format!("key:{name}")),
        reason: "its key was revoked".into(),
        dry_run: false,
    };
    ask(args.output, async {
        let revoked = args.server.client()?.revoke_all(&request).await?;
        print(&format!("ended {} leases", revoked.n_revoked))
    })
}

/// A key as the file has it.
pub(crate) fn entry(name: &str, key: &NewKey, expires: Option<&str>) -> String {
    let NewKey { id, sha256, .. } = key;
    let expires = expires.map_or(String::new(), |at| format!("expires = {at}\n"));
    format!("\n[[key]]\nname = {}\nid = \"{id}\"\nsha256 = \"{sha256}\"\n{expires}", quoted(name))
}

/// A rule for a key as the file has it.
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

/// So many seconds from now, as TOML writes it.
fn date(seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let at = UNIX_EPOCH + std::time::Duration::from_secs(now + seconds);
    humantime::format_rfc3339_seconds(at).to_string()
}
