//! `[proxy]`: the proxy that is trusted to name users, and the headers it uses.

use http::HeaderName;
use ipnet::IpNet;
use serde::Deserialize;
use toml::Spanned;

use super::source::{Beside, Secret, Source};
use crate::parse_network;

/// Minimum length of the proxy's secret. A shorter secret could be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// The proxy as configured in the auth file.
#[derive(Clone, PartialEq, Debug)]
pub struct Proxy {
    pub user_header: HeaderName,
    pub(crate) groups_header: Option<HeaderName>,
    pub(crate) groups_separator: String,
    pub from: Vec<From>,
    pub secret: Option<(HeaderName, Secret)>,
}

/// How the proxy is recognized.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum From {
    /// The proxy connects to this Unix socket. File permissions control which processes can do so.
    Unix(String),
    /// The proxy connects from this network and sends the secret.
    Network(IpNet),
    /// The proxy sends a client certificate with this name.
    Mtls(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ProxyEntry {
    user_header: Spanned<String>,
    groups_header: Option<Spanned<String>>,
    groups_separator: Option<Spanned<String>>,
    pub(super) from: Spanned<Vec<Spanned<String>>>,
    secret_header: Option<Spanned<String>>,
    secret_file: Option<Spanned<String>>,
}

pub(super) fn read(
    source: &Source,
    beside: &mut Beside<'_>,
    entry: &Spanned<ProxyEntry>,
) -> Result<Proxy, String> {
    let ProxyEntry { user_header, groups_header, groups_separator, from, .. } = entry.get_ref();
    let wrong = |why: &str| source.wrong(entry, format!("proxy: {why}"));
    let header = |name: &Spanned<String>| {
        let parsed: Option<HeaderName> = name.get_ref().parse().ok();
        let is_own = |header: &HeaderName| !OTHERWISE_USED.contains(&header.as_str());
        parsed.filter(is_own).ok_or_else(|| {
            let why = format!(
                "proxy: {:?} cannot be used: it must be a dedicated header",
                name.get_ref()
            );
            source.wrong(name, why)
        })
    };
    let from_places: Vec<From> =
        from.get_ref().iter().map(|text| place(source, text)).collect::<Result<_, _>>()?;
    if from_places.is_empty() {
        return Err(source.wrong(from, "proxy: from must contain the address of the proxy"));
    }
    let separator = groups_separator.as_ref().map_or(";", |text| text.get_ref());
    if separator.is_empty() {
        return Err(wrong("groups-separator must not be empty"));
    }
    let secret = match (&entry.get_ref().secret_header, &entry.get_ref().secret_file) {
        (Some(name), Some(file)) => {
            let secret = beside.secret(file.get_ref(), SECRET_BYTES_MIN);
            let told = |why: String| source.wrong(file, format!("proxy: secret-file: {why}"));
            Some((header(name)?, secret.map_err(told)?))
        }
        (None, None) => None,
        _ => return Err(wrong("secret-header and secret-file must be set together")),
    };
    let has_address = from_places.iter().any(|from| matches!(from, From::Network(_)));
    if has_address && secret.is_none() {
        return Err(wrong(
            "from has an address, so secret-header and secret-file are required; without them, any program on that \
             machine could impersonate any user",
        ));
    }
    let proxy = Proxy {
        user_header: header(user_header)?,
        groups_header: groups_header.as_ref().map(header).transpose()?,
        groups_separator: separator.into(),
        from: from_places,
        secret,
    };
    let mut names: Vec<_> = [Some(&proxy.user_header), proxy.groups_header.as_ref()]
        .into_iter()
        .chain([proxy.secret.as_ref().map(|(name, _)| name)])
        .flatten()
        .collect();
    let n = names.len();
    names.sort_unstable_by_key(|name| name.as_str());
    names.dedup();
    if names.len() < n {
        return Err(wrong("two of its headers have the same name"));
    }
    Ok(proxy)
}

/// Headers that have another meaning and cannot carry the proxy's values.
const OTHERWISE_USED: [&str; 8] = [
    "authorization",
    "cookie",
    "host",
    "origin",
    "content-length",
    "transfer-encoding",
    "forwarded",
    "x-forwarded-for",
];

fn place(source: &Source, text: &Spanned<String>) -> Result<From, String> {
    let told = |why: String| source.wrong(text, format!("proxy: from: {why}"));
    let rest = |prefix: &str| text.get_ref().strip_prefix(prefix).map(str::to_owned);
    if let Some(path) = rest("unix:") {
        let is_path = path.starts_with('/');
        return is_path.then_some(From::Unix(path)).ok_or_else(|| {
            told("unix: must be followed by an absolute path, as in --listen".into())
        });
    }
    if let Some(name) = rest("mtls:") {
        let why = "mtls: must be followed by the name in the proxy's certificate".into();
        return if name.is_empty() { Err(told(why)) } else { Ok(From::Mtls(name)) };
    }
    parse_network(text.get_ref()).map(From::Network).map_err(|_| {
        let text = text.get_ref();
        told(format!("{text:?} is neither an address, a network, unix:PATH nor mtls:NAME"))
    })
}
