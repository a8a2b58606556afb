//! Warnings about settings that work but are probably a mistake.

use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_auth::{Policy, Surroundings};
use leasehold_base::exposure::{self, Trusted};
use leasehold_server::serve::Settings;

use crate::config::Args;

/// Returns warnings: rules without effect, files that other users can read or replace, unencrypted listeners.
pub(crate) fn doubts(settings: &Args) -> Result<Vec<String>, String> {
    let mut doubts = of_rules(settings)?;
    let files = exposed(&settings.settings());
    doubts.extend(files.into_iter().map(|(found, advice)| format!("{found}; run: {advice}")));
    doubts.extend(in_the_clear(settings));
    Ok(doubts)
}

/// Rules of the auth file that are probably a mistake, or have no effect with these settings.
fn of_rules(settings: &Args) -> Result<Vec<String>, String> {
    let Some(file) = settings.auth_file() else { return Ok(Vec::new()) };
    let policy = Policy::load(file)?;
    let listening = settings.listening();
    let listen = || listening.iter().map(|(_, listen)| listen);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let around = Surroundings {
        unix_paths: listen().filter_map(|listen| listen.unix_path()).map(Into::into).collect(),
        has_tls: listen().any(|listen| listen.is_tls()),
        files_namespace: settings.files_namespace().map(str::to_owned),
        content_namespaces: settings.content_namespaces(),
        wall_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
    };
    policy.doubts(file, &around)
}

/// Keys, secrets and auth files that other users can read or replace, each with a command that fixes it.
pub(crate) fn exposed(settings: &Settings) -> Vec<(String, String)> {
    let policy = settings.auth_file.as_ref().and_then(|file| Policy::load(file).ok());
    let mut files: Vec<_> = policy.iter().flat_map(|policy| policy.files()).cloned().collect();
    let mut add = |path: &std::path::Path, is_secret| {
        files.push(Trusted { path: path.into(), is_secret });
    };
    if let Some(tls) = &settings.tls {
        add(&tls.certificate, false);
        add(&tls.key, true);
    }
    if let Some(file) = settings.webhook.as_ref().and_then(|webhook| webhook.secret_file.as_ref()) {
        add(file, true);
    }
    if let Some(cluster) = &settings.cluster {
        cluster.peer_secret_file.iter().for_each(|file| add(file, true));
        let access = &cluster.access;
        access.ca_file.iter().for_each(|file| add(file, false));
        access.user.iter().for_each(|(_, file)| add(file, true));
        if let Some((certificate, key)) = &access.identity_files {
            add(certificate, false);
            add(key, true);
        }
    }
    files.iter().flat_map(exposure::doubts).collect()
}

/// Listeners on which credentials can be read in transit.
fn in_the_clear(settings: &Args) -> Vec<String> {
    if settings.auth_file().is_none() {
        return Vec::new();
    }
    let open = settings.listening().into_iter();
    let open = open.filter(|(_, listen)| !listen.is_local() && !listen.is_tls());
    let told = open.map(|(flag, listen)| {
        format!(
            "{flag} {listen} is not encrypted, and other machines can reach it: keys and tokens can be read in \
             transit. Use TLS, or let only a TLS proxy connect"
        )
    });
    told.chain(of_peers(&settings.settings())).collect()
}

/// The listener for the other servers of a cluster, which is never encrypted.
fn of_peers(settings: &Settings) -> Option<String> {
    let cluster = settings.cluster.as_ref()?;
    let peers = cluster.peers(&settings.listen);
    let is_local = peers.ip().to_canonical().is_loopback();
    (!is_local).then(|| {
        let default = if cluster.peer_listen.is_none() { " (default)" } else { "" };
        format!(
            "--peer-listen {peers}{default} is not encrypted, and other machines can reach it: keys, tokens and the \
             peer secret can be read in transit. Use a network that encrypts traffic, such as WireGuard"
        )
    })
}
