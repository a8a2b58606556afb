//! `leasehold serve` and `leasehold check-config`.

pub(crate) mod doubt;
mod notify;
mod settings;
mod signals;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use leasehold_auth::{Policy, Right};
use leasehold_base::probe;
use leasehold_base::runtime;
use leasehold_core::LockKey;
use leasehold_server::dialect::Dialect;
use leasehold_server::serve::{Server, Settings};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::ask::told;
use crate::config::{self, Args, Given, explain, located};
use crate::exit::{self, Failure};
use crate::log;
use crate::output::{OutputArgs, print, print_json, say};
use crate::rights;
use doubt::doubts;
use notify::Notifier;
use settings::Reload;

/// Runs the server until a signal ends it.
pub(crate) fn serve(args: Args, given: &Given) -> Result<(), Failure> {
    let format = args.log_format;
    served(args, given).map_err(|why| fatal(why, format))
}

/// Reports in the format of the log why a server ended or could not start.
pub(crate) fn fatal(why: String, format: log::Format) -> Failure {
    if !format.is_json() {
        return why.into();
    }
    log::tell("ERROR", &why, Map::new());
    Failure::silent(exit::FAILED)
}

fn served(args: Args, given: &Given) -> Result<(), String> {
    args.check().map_err(|why| located(why, given))?;
    rights::private();
    let filter = log::init(&args.log, args.log_format)?;
    for doubt in doubts(&args)? {
        tracing::warn!("{doubt}");
    }
    let mut settings = args.settings();
    if let Some(n_files) = allow_many_files()
        && let Some(told) = settings.fit_open_files(n_files)?
    {
        tracing::warn!("{told}");
    }
    // This thread accepts connections and handles signals; the workers have their own threads.
    let runtime = runtime::on_this_thread().map_err(|error| error.to_string())?;
    let done = runtime.block_on(run(args, settings, Reload::new(given, filter)));
    if let Ok(Stopped::BeforeItBegan) = done {
        // Does not wait for the search for the store, which is still running.
        runtime.shutdown_background();
    }
    done.map(drop)
}

/// Flags of `check-config`: the settings to check, and a right to explain.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// Show what the auth file lets this principal do, such as key:ci or anonymous.
    #[arg(long = "as", value_name = "PRINCIPAL", requires_all = ["may", "lock"])]
    principal: Option<String>,
    /// The groups of the principal.
    #[arg(long, value_delimiter = ',', requires = "principal")]
    groups: Vec<String>,
    /// The right to check.
    #[arg(long, requires = "principal")]
    may: Option<Right>,
    /// The lock to check: NAMESPACE/NAME, or its name alone with --namespace.
    #[arg(long, requires = "principal")]
    lock: Option<String>,
    /// The namespace of the lock, if it contains a slash.
    #[arg(long, requires = "lock")]
    namespace: Option<String>,
    #[command(flatten)]
    settings: Args,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints the effective settings.
pub(crate) fn check(args: &CheckArgs, given: &Given) -> Result<(), Failure> {
    told(args.output, checked(args, given))
}

fn checked(args: &CheckArgs, given: &Given) -> Result<(), Failure> {
    args.settings.check().map_err(|why| located(why, given))?;
    if let (Some(principal), Some(may), Some(lock)) = (&args.principal, args.may, &args.lock) {
        return explain_right(args, principal, may, lock);
    }
    let doubts = doubts(&args.settings)?;
    doubts.iter().for_each(|doubt| warn(doubt));
    if args.output.json {
        let settings = config::values(given);
        return print_json(&json!({"valid": true, "warnings": doubts, "settings": settings}));
    }
    print(explain(given)?.trim_end())
}

/// Prints which rule decides whether a principal has a right.
fn explain_right(args: &CheckArgs, principal: &str, may: Right, lock: &str) -> Result<(), Failure> {
    let usage = |why: &str| Failure::new(exit::USAGE, why);
    let file = args.settings.auth_file().ok_or_else(|| usage("--as needs --auth-file"))?;
    let (namespace, name) = match &args.namespace {
        Some(namespace) => (namespace.as_str(), lock),
        None => lock.split_once('/').ok_or_else(|| {
            usage("--lock: must be NAMESPACE/NAME, or a name with --namespace NAMESPACE")
        })?,
    };
    if namespace.is_empty() || name.is_empty() {
        return Err(usage("--lock: the namespace and the name must not be empty"));
    }
    if args.namespace.is_none() && name.contains('/') {
        say(&format!(
            "leasehold: --lock {lock} means namespace {namespace:?} and lock {name:?}; if the namespace contains a \
             slash, use --namespace NAMESPACE --lock NAME"
        ));
    }
    let decision =
        Policy::load(file)?.explain(principal, &args.groups, may, &LockKey::new(namespace, name));
    if args.output.json {
        let (allowed, why) = (decision.is_allowed, decision.why);
        print_json(&json!({"allowed": allowed, "why": why, "namespace": namespace, "lock": name}))?;
        return if allowed { Ok(()) } else { Err(Failure::silent(exit::FORBIDDEN)) };
    }
    print(&decision.why)?;
    if decision.is_allowed { Ok(()) } else { Err(Failure::silent(exit::FORBIDDEN)) }
}

fn warn(why: &str) {
    say(&format!("leasehold: warning: {why}"));
}

/// When the server was stopped.
enum Stopped {
    /// The server had not found its store yet.
    BeforeItBegan,
    InTheEnd,
}

async fn run(args: Args, settings: Settings, reload_of: Reload) -> Result<Stopped, String> {
    // Installed before anything is announced, so that a process that reads the announcement can already stop the
    // server.
    let reload = Arc::new(Notify::new());
    let ended = signals::heed(reload_of, reload.clone()).map_err(|error| error.to_string())?;
    args.port_file.as_deref().map_or(Ok(()), check_port_file)?;
    let mut ended = pin!(ended);
    let starting = Server::start(settings);
    let server = tokio::select! {
        server = starting => server.map_err(|error| error.to_string())?,
        // Opening a local directory is quick, but etcd can take long; until it responds, nothing was started that needs
        // a shutdown.
        () = &mut ended, if args.store().is_some() => return Ok(Stopped::BeforeItBegan),
    };
    banner(&args, &server);
    if let Some(file) = &args.port_file {
        // The file is also written if there is no port: scripts wait for it as a sign that the server runs.
        write_port(file, server.address().map_or(0, |address| address.port()))?;
    }
    let (told, audit) = (server.reloader(), server.audit());
    let reloading = tokio::spawn(async move {
        loop {
            reload.notified().await;
            told.notify_one();
            audit.iter().for_each(|audit| audit.reopen());
        }
    });
    let notifier = Arc::new(Notifier::from_environment());
    if let Some(notifier) = &*notifier {
        notifier.tell(notify::READY);
    }
    let (engine, alive) = (server.engine().clone(), notifier.clone());
    let watching = tokio::spawn(async move {
        if let Some(notifier) = &*alive {
            notifier.watch(|| engine.is_alive()).await;
        }
    });
    let ended = async {
        ended.await;
        notifier.iter().for_each(|notifier| notifier.tell(notify::STOPPING));
    };
    let done = server.run_until(ended).await.map_err(|error| error.to_string());
    reloading.abort();
    watching.abort();
    done.map(|()| Stopped::InTheEnd)
}

fn banner(args: &Args, server: &Server) {
    if args.log_format.is_json() {
        return banner_in_json(args, server);
    }
    let version = env!("CARGO_PKG_VERSION");
    let data =
        if args.ephemeral { "in memory only".into() } else { args.data.display().to_string() };
    say(&format!("leasehold {version}"));
    for listener in server.listeners() {
        say(&format!("  listening  {listener}"));
    }
    if let Some(redis) = redis(args, server) {
        say(&format!("  redis      {redis}"));
    }
    if let Some(listener) = server.metrics_listener() {
        say(&format!("  metrics    {listener}"));
    }
    if let Some(listener) = server.peer_listener() {
        say(&format!("  peers      {listener}"));
    }
    if let Some(store) = args.store() {
        say(&format!("  store      {store}"));
    }
    say(&format!("  data       {data}"));
    let (dialects, off) = spoken(args);
    say(&format!("  dialects   {}", dialects.join(", ")));
    if !off.is_empty() {
        say(&format!(
            "  off        {} (their content would be on one server only)",
            off.join(", ")
        ));
    }
    say(&format!("  auth       {}", args.authentication()));
    let mut listeners = server.listeners().iter().map(ToString::to_string);
    let Some(url) = listeners.find(|listener| listener.starts_with("http")) else { return };
    say(&format!("  console    {url}/console"));
    // With an auth file, the example command would need a key.
    if args.auth_file().is_none() {
        let body = r#"{"owner_id":"me","ttl_ms":60000}"#;
        say(&format!("  try        curl --json '{body}' {url}/v1/locks/demo/acquire"));
    }
}

fn banner_in_json(args: &Args, server: &Server) {
    let listening: Vec<_> = server.listeners().iter().map(ToString::to_string).collect();
    let (dialects, off) = spoken(args);
    let said = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "listening": listening,
        "redis": redis(args, server),
        "metrics": server.metrics_listener().map(ToString::to_string),
        "store": args.store().map(ToString::to_string),
        "data": (!args.ephemeral).then(|| args.data.display().to_string()),
        "dialects": dialects,
        "off": (!off.is_empty()).then_some(off),
        "auth": args.authentication(),
    });
    let Value::Object(mut fields) = said else { return };
    fields.retain(|_, value| !value.is_null());
    log::tell("INFO", "listening", fields);
}

/// Returns the enabled protocols, and those that are off because the servers of a cluster store no content.
fn spoken(args: &Args) -> (Vec<String>, Vec<String>) {
    let is_spoken = |dialect: &&Dialect| args.store().is_none() || !dialect.keeps_content();
    let (spoken, off): (Vec<_>, Vec<_>) = args.dialects.iter().partition(is_spoken);
    let names = |dialects: Vec<&Dialect>| dialects.into_iter().map(ToString::to_string).collect();
    (names(spoken), names(off))
}

/// Returns the URL for Redis clients, if they are served.
fn redis(args: &Args, server: &Server) -> Option<String> {
    let scheme = if args.is_redis_tls() { "rediss" } else { "redis" };
    server.listening(Dialect::Redis).map(|address| format!("{scheme}://{address}"))
}

/// Writes the file atomically, so that no reader sees a part of the number.
fn write_port(file: &Path, port: u16) -> Result<(), String> {
    let why = |error: std::io::Error| format!("{}: {error}", file.display());
    let unfinished = unfinished(file);
    fs::write(&unfinished, format!("{port}\n")).map_err(why)?;
    // The port is not a secret, and another user might wait for the file.
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o644)).map_err(why)?;
    fs::rename(&unfinished, file).map_err(why)
}

/// Checks whether the port file could be written. Creates nothing.
pub(crate) fn check_port_file(file: &Path) -> Result<(), String> {
    if file.is_dir() {
        return Err(format!("{} is a directory, not a file", file.display()));
    }
    probe::file(&unfinished(file))
}

fn unfinished(file: &Path) -> PathBuf {
    file.with_extension("tmp")
}

/// Raises the limit of open files: each connection is one, and the usual soft limit is too low. Returns the limit, if
/// there is one.
fn allow_many_files() -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    getrlimit(Resource::Nofile).current.map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}
