//! Parses `auth.toml` and the key files. Errors name the file and the line.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use leasehold_base::calendar;
use leasehold_base::host::is_host;
use serde::Deserialize;
use toml::Spanned;
use toml::value::{Datetime, Offset};

use super::key::{self, Key};
use super::mtls::{Mtls, Named};
use super::oidc::{self, OidcEntry};
use super::pattern::Pattern;
use super::proxy::{self, ProxyEntry};
use super::quota::{self, QuotaEntry};
use super::rule::Rule;
use super::source::{Beside, Source};
use super::{Policy, Public};
use crate::Right;

/// The only supported version of the format.
const VERSION: i64 = 1;
/// Longest name of a principal, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AuthFile {
    pub(super) version: Spanned<i64>,
    #[serde(default)]
    pub(super) key_files: Vec<Spanned<String>>,
    #[serde(default)]
    public: Vec<Spanned<String>>,
    pub(super) public_url: Option<Spanned<String>>,
    pub(super) mtls: Option<MtlsEntry>,
    #[serde(default)]
    pub(super) oidc: Vec<Spanned<OidcEntry>>,
    pub(super) proxy: Option<Spanned<ProxyEntry>>,
    #[serde(default)]
    pub(super) rule: Vec<Spanned<RuleEntry>>,
    #[serde(default)]
    pub(super) quota: Vec<Spanned<QuotaEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MtlsEntry {
    pub(super) ca_file: Spanned<String>,
    principal: Spanned<String>,
    required: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    pub(super) name: String,
    #[serde(default)]
    pub(super) who: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) groups: Vec<Spanned<String>>,
    pub(super) may: Vec<Spanned<String>>,
    pub(super) namespaces: Vec<Spanned<String>>,
    pub(super) locks: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyFile {
    // Required even if the list is empty: a truncated key file must be an error, not a list without keys that locks
    // every client out.
    pub(super) key: Vec<Spanned<KeyEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyEntry {
    pub(super) name: Spanned<String>,
    pub(super) id: Spanned<String>,
    sha256: Spanned<String>,
    pub(super) expires: Option<Spanned<Datetime>>,
}

/// Reads the auth file and the files it names.
pub(super) fn load(path: &Path) -> Result<Policy, String> {
    let source = Source::read(path)?;
    let file: AuthFile = source.parse()?;
    if *file.version.get_ref() != VERSION {
        return Err(source.wrong(&file.version, format!("version must be {VERSION}")));
    }
    let mut beside = Beside::new(path, &source);
    let mut keys = HashMap::new();
    for name in &file.key_files {
        let keys_of = beside.source(name.get_ref());
        let wrong = |why: String| source.wrong(name, format!("key-files: {why}"));
        read_keys(&keys_of.map_err(wrong)?, &mut keys)?;
    }
    let mtls = match &file.mtls {
        Some(entry) => Some(Arc::new(mtls(&source, &mut beside, entry)?)),
        None => None,
    };
    let known_by = file.public_url.as_ref();
    let issuers = oidc::read(&source, &mut beside, &file.oidc, known_by)?;
    let proxy = file.proxy.as_ref().map(|entry| proxy::read(&source, &mut beside, entry));
    let rules = file.rule.iter().map(|entry| rule(&source, entry)).collect::<Result<_, _>>()?;
    let quotas =
        file.quota.iter().map(|entry| quota::read(&source, entry)).collect::<Result<_, _>>()?;
    let proxy = proxy.transpose()?;
    let (hash, files) = beside.finish();
    Ok(Policy {
        keys,
        issuers,
        proxy,
        rules,
        quotas,
        public: public(&source, &file.public)?,
        public_url: public_url(&source, file.public_url)?,
        mtls,
        hash: key::hex(&hash),
        files,
    })
}

fn mtls(source: &Source, beside: &mut Beside<'_>, entry: &MtlsEntry) -> Result<Mtls, String> {
    let MtlsEntry { ca_file, principal, required } = entry;
    let wrong = |why: String| source.wrong(principal, format!("mtls: {why}"));
    let named = Named::parse(principal.get_ref()).map_err(wrong)?;
    let ca = beside
        .source(ca_file.get_ref())
        .map_err(|why| source.wrong(ca_file, format!("mtls: ca-file: {why}")))?;
    Mtls::new(&ca.text, named, *required)
        .map_err(|why| source.wrong(ca_file, format!("mtls: ca-file {}: {why}", ca.path.display())))
}

fn public(source: &Source, words: &[Spanned<String>]) -> Result<Public, String> {
    let mut public = Public::default();
    for word in words {
        match word.get_ref().as_str() {
            "metrics" => public.metrics = true,
            "docs" => public.docs = true,
            other => {
                let why = format!("public: unknown {other:?}; allowed: metrics, docs");
                return Err(source.wrong(word, why));
            }
        }
    }
    Ok(public)
}

fn rule(source: &Source, entry: &Spanned<RuleEntry>) -> Result<Rule, String> {
    let RuleEntry { name, who, groups, may, namespaces, locks } = entry.get_ref();
    let wrong = |why: String| source.wrong(entry, format!("rule {name:?}: {why}"));
    if who.is_empty() && groups.is_empty() {
        return Err(wrong("who or groups is required".into()));
    }
    // An empty list would grant nothing without anyone noticing.
    let is_empty = locks.as_ref().is_some_and(Vec::is_empty);
    for (member, is_empty) in
        [("may", may.is_empty()), ("namespaces", namespaces.is_empty()), ("locks", is_empty)]
    {
        if is_empty {
            return Err(wrong(format!("{member} must not be empty; [\"*\"] matches all")));
        }
    }
    let may = may.iter().map(|word| {
        let parsed: Result<Right, _> = word.get_ref().parse();
        parsed.map_err(|why| source.wrong(word, format!("rule {name:?}: {why}")))
    });
    check_who(source, &format!("rule {name:?}"), who)?;
    check_groups(source, name, groups)?;
    let patterns = |texts: &[Spanned<String>]| {
        texts.iter().map(|text| Pattern::parse(text.get_ref())).collect::<Vec<_>>()
    };
    Ok(Rule {
        name: name.as_str().into(),
        place: source.place(entry.span().start),
        who: patterns(who),
        groups: patterns(groups),
        may: may.collect::<Result<_, _>>()?,
        namespaces: patterns(namespaces),
        locks: match locks {
            Some(locks) => patterns(locks),
            None => vec![Pattern::parse("*")],
        },
    })
}

pub(super) fn check_who(
    source: &Source,
    what: &str,
    who: &[Spanned<String>],
) -> Result<(), String> {
    match who.iter().find(|word| !is_principal(word.get_ref())) {
        None => Ok(()),
        Some(word) => {
            let text = word.get_ref();
            let why = format!(
                "{what}: {text:?} is not a valid principal; use key:NAME, OIDCNAME:SUB, proxy:USER, mtls:NAME, \
                 anonymous or *"
            );
            Err(source.wrong(word, why))
        }
    }
}

fn check_groups(source: &Source, rule: &str, groups: &[Spanned<String>]) -> Result<(), String> {
    let is_group = |text: &str| text.split_once(':').is_some_and(|(_, group)| !group.is_empty());
    match groups.iter().find(|word| !is_group(word.get_ref())) {
        None => Ok(()),
        Some(word) => {
            let text = word.get_ref();
            let why = format!(
                "rule {rule:?}: {text:?} is not a valid group; use OIDCNAME:GROUP or proxy:GROUP"
            );
            Err(source.wrong(word, why))
        }
    }
}

/// Returns whether the text is a principal: `*`, `anonymous` or `KIND:NAME`. Without this check, a missing kind or name
/// would go unnoticed and grant nothing.
fn is_principal(text: &str) -> bool {
    let is_named = |(kind, name): (&str, &str)| !kind.is_empty() && !name.is_empty();
    text == "*" || text == "anonymous" || text.split_once(':').is_some_and(is_named)
}

/// Checks `public-url`, the URL under which browsers reach the server: a scheme and a host, without a path.
fn public_url(source: &Source, url: Option<Spanned<String>>) -> Result<Option<String>, String> {
    let Some(url) = url else { return Ok(None) };
    let text = url.get_ref();
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = host.map(|host| host.strip_suffix('/').unwrap_or(host));
    if host.is_some_and(|host| is_host(host.as_bytes())) {
        return Ok(Some(text.clone()));
    }
    let why = format!("public-url: {text:?} must be https://HOST or https://HOST:PORT");
    Err(source.wrong(&url, why))
}

fn read_keys(source: &Source, keys: &mut HashMap<Box<str>, Key>) -> Result<(), String> {
    let file: KeyFile = source.parse()?;
    for entry in file.key {
        let KeyEntry { name, id, sha256, expires } = entry.into_inner();
        let is_name = |text: &str| {
            (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control)
        };
        if !is_name(name.get_ref()) {
            return Err(source.wrong(&name, "name: must have 1 to 200 bytes and no controls"));
        }
        let is_id =
            !id.get_ref().is_empty() && id.get_ref().bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_id {
            return Err(source.wrong(&id, "id: must be letters and digits"));
        }
        let Some(digest) = key::unhex(sha256.get_ref()) else {
            return Err(source.wrong(&sha256, "sha256: must be 64 hexadecimal digits"));
        };
        let expires_ms = match expires {
            None => None,
            Some(expires) => Some(epoch_ms(expires.get_ref()).ok_or_else(|| {
                source.wrong(
                    &expires,
                    "expires: must be a date and time with a zone (2027-02-13T00:00:00Z)",
                )
            })?),
        };
        let key = Key { name: name.get_ref().as_str().into(), sha256: digest, expires_ms };
        if keys.insert(id.get_ref().as_str().into(), key).is_some() {
            return Err(source.wrong(&id, format!("id {:?}: appears twice", id.get_ref())));
        }
    }
    Ok(())
}

/// Returns a date and time as epoch milliseconds, or `None` if it has no time or no zone.
pub(super) fn epoch_ms(at: &Datetime) -> Option<i64> {
    let (date, time, offset) = (at.date?, at.time?, at.offset?);
    let offset_minutes = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = calendar::days(date.year.into(), date.month.into(), date.day.into())?;
    #[allow(clippy::useless_conversion, reason = "in toml 0.9 there always is one")]
    let second = Option::<u8>::from(time.second).unwrap_or(0);
    let seconds = i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(second)
        - offset_minutes * 60;
    Some((days * 86_400 + seconds) * 1000)
}
