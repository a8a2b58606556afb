//! Warnings about the auth files: settings that are valid but probably mistakes.
//!
//! Examples are rules that can never match, principals that cannot exist, and patterns that match more than they seem
//! to. Each warning names its line; none prevents the server from starting.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::file::{AuthFile, KeyFile, RuleEntry, epoch_ms};
use super::mtls::Named;
use super::oidc::KeySource;
use super::pattern::Pattern;
use super::source::Source;
use super::{Policy, url};
use crate::principal::ANONYMOUS;
use crate::{Principal, Right};

/// Server settings that decide whether something in the auth files has an effect.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The paths of the server's Unix sockets.
    pub unix_paths: Vec<PathBuf>,
    /// Whether a listener uses TLS.
    pub has_tls: bool,
    /// The namespace of the files dialect; `None` if that dialect is off.
    pub files_namespace: Option<String>,
    /// The namespaces of other dialects that store content.
    pub content_namespaces: Vec<String>,
    /// The current time, in epoch milliseconds.
    pub wall_ms: i64,
}

/// Returns all warnings, in the order of the file.
pub(super) fn all(
    path: &Path,
    policy: &Policy,
    around: &Surroundings,
) -> Result<Vec<String>, String> {
    let source = Source::read(path)?;
    let file: AuthFile = source.parse()?;
    let mut looking = Looking { source: &source, file: &file, policy, around, told: Vec::new() };
    looking.at_who_is_known();
    looking.at_issuers();
    looking.at_proxy();
    looking.at_rules();
    looking.at_quotas();
    let mut told = looking.told;
    told.sort_by_key(|(line, _)| *line);
    let mut told: Vec<_> = told.into_iter().map(|(_, why)| why).collect();
    for name in &file.key_files {
        let folder = path.parent().unwrap_or(Path::new("."));
        at_keys(&Source::read(&folder.join(name.get_ref()))?, policy, around, &mut told)?;
    }
    Ok(told)
}

struct Looking<'a> {
    source: &'a Source,
    file: &'a AuthFile,
    policy: &'a Policy,
    around: &'a Surroundings,
    told: Vec<(u32, String)>,
}

impl Looking<'_> {
    fn tell<T>(&mut self, at: &Spanned<T>, why: impl std::fmt::Display) {
        let line = self.source.line(at.span().start);
        self.told.push((line, self.source.wrong(at, why)));
    }

    fn at_who_is_known(&mut self) {
        let Policy { keys, issuers, proxy, mtls, .. } = self.policy;
        if keys.is_empty() && issuers.is_empty() && proxy.is_none() && mtls.is_none() {
            let why = "no client can authenticate: there is no key, no [[oidc]], no [proxy] and no [mtls]";
            self.tell(&self.file.version, why);
        }
        if let Some(at) = self.file.mtls.as_ref().filter(|_| !self.around.has_tls) {
            self.tell(&at.ca_file, "[mtls] has no effect: no --listen begins with https://");
        }
        let plain = |at: &&Spanned<String>| url::parse(at.get_ref()).is_err();
        if let Some(at) = self.file.public_url.as_ref().filter(plain) {
            let why = "public-url: browsers keep the sign-in cookie only for https://, so users cannot sign in";
            self.tell(at, why);
        }
    }

    fn at_issuers(&mut self) {
        for (entry, issuer) in self.file.oidc.iter().zip(&self.policy.issuers) {
            let is_empty = matches!(&issuer.keys, KeySource::File(ring) if ring.is_empty());
            if let Some(at) = entry.get_ref().jwks_file.as_ref().filter(|_| is_empty) {
                let why = "jwks-file: it has no key, so all tokens of this issuer are refused";
                self.tell(at, format!("oidc {:?}: {why}", issuer.name));
            }
        }
    }

    fn at_proxy(&mut self) {
        let Some(proxy) = &self.file.proxy else { return };
        for at in proxy.get_ref().from.get_ref() {
            let text = at.get_ref();
            if let Some(path) = text.strip_prefix("unix:")
                && !self.around.unix_paths.iter().any(|known| known == Path::new(path))
            {
                self.tell(
                    at,
                    format!("proxy: from: the server does not listen on {text}: there is no --listen {text}"),
                );
            }
            if text.starts_with("mtls:") && self.file.mtls.is_none() {
                let why = format!("proxy: from: {text:?} has no effect: there is no [mtls]");
                self.tell(at, why);
            }
        }
    }

    fn at_rules(&mut self) {
        let mut names: HashMap<&str, u32> = HashMap::new();
        for rule in &self.file.rule {
            let RuleEntry { name, who, groups, namespaces, locks, .. } = rule.get_ref();
            let line = self.source.line(rule.span().start);
            if let Some(first) = names.get(name.as_str()) {
                let why = format!(
                    "rule {name:?}: the rule in line {first} has the same name, so audit entries are ambiguous"
                );
                self.tell(rule, why);
            }
            names.entry(name).or_insert(line);
            let of = format!("rule {name:?}");
            self.at_who(&of, who);
            self.at_groups(&of, groups);
            let locks = locks.as_deref().unwrap_or_default();
            for at in namespaces.iter().chain(locks) {
                self.at_pattern(&of, at);
            }
            self.at_files(rule);
        }
    }

    /// Warns about principals that cannot exist.
    fn at_who(&mut self, of: &str, who: &[Spanned<String>]) {
        for at in who {
            let text = at.get_ref();
            self.at_star(of, at);
            let Some((kind, name)) = text.split_once(':') else { continue };
            let why = match kind {
                "key" => self.unknown_key(name),
                "mtls" => self.unknown_certificate(name),
                kind => self.unknown_kind(kind),
            };
            if let Some(why) = why {
                self.tell(at, format!("{of}: {why}"));
            }
        }
    }

    /// Warns about groups that no principal can be in.
    fn at_groups(&mut self, of: &str, groups: &[Spanned<String>]) {
        for at in groups {
            self.at_star(of, at);
            let Some((kind, _)) = at.get_ref().split_once(':') else { continue };
            let has_groups = |proxy: &super::Proxy| proxy.groups_header.is_some();
            let why = match kind {
                "key" | "mtls" => {
                    Some("keys and certificates have no groups; list them in who".into())
                }
                "proxy" if self.policy.proxy().is_some_and(|proxy| !has_groups(proxy)) => {
                    Some("the proxy sends no groups: [proxy] has no groups-header".into())
                }
                kind => self.unknown_kind(kind),
            };
            if let Some(why) = why {
                self.tell(
                    at,
                    format!("{of}: no principal can have the group {:?}: {why}", at.get_ref()),
                );
            }
        }
    }

    fn unknown_kind(&self, kind: &str) -> Option<String> {
        let is_known = match kind {
            "proxy" => self.policy.proxy().is_some(),
            "mtls" => self.policy.mtls().is_some(),
            kind => self.policy.issuers().iter().any(|issuer| *issuer.name == *kind),
        };
        (!is_known).then(|| {
            format!(
                "no principal begins with \"{kind}:\": this file has no [[oidc]] of that name, no [proxy] or no [mtls]"
            )
        })
    }

    fn unknown_key(&self, name: &str) -> Option<String> {
        let pattern = Pattern::parse(name);
        let mut known =
            self.policy.keys.values().filter(|key| pattern.matches(&key.name)).peekable();
        if known.peek().is_none() {
            return Some(format!("no key has the name {name:?} (key-files)"));
        }
        let is_over = known.all(|key| key.is_expired(self.around.wall_ms));
        is_over.then(|| format!("all keys with the name {name:?} have expired"))
    }

    fn unknown_certificate(&self, name: &str) -> Option<String> {
        let Some(mtls) = self.policy.mtls() else { return self.unknown_kind("mtls") };
        let is_uri = name.contains("://");
        match mtls.named() {
            Named::NoPrincipal => {
                Some("certificates identify no principal: [mtls] has principal = \"none\"".into())
            }
            Named::Dns if is_uri => {
                Some(format!("{name:?} is a URI, but [mtls] has principal = \"dns\""))
            }
            // `spiffe:*` is plausible, and a single star matches all names.
            Named::Uri if !name.contains(':') && name != "*" => {
                Some(format!("{name:?} is not a URI, but [mtls] has principal = \"uri\""))
            }
            Named::Dns | Named::Uri => None,
        }
    }

    fn at_pattern(&mut self, of: &str, at: &Spanned<String>) {
        self.at_star(of, at);
        match Pattern::parse(at.get_ref()) {
            Pattern::Exactly(name) if name.is_empty() => {
                self.tell(
                    at,
                    format!("{of}: \"\" matches nothing: every name has at least one byte"),
                );
            }
            Pattern::Prefix(prefix) if Pattern::Prefix(prefix.clone()).is_loose() => {
                let why = format!("\"{prefix}*\" also matches names such as \"{prefix}ping\"");
                self.tell(at, format!("{of}: {why}"));
            }
            Pattern::Exactly(_) | Pattern::Prefix(_) => {}
        }
    }

    /// Warns about stars that are not wildcards because they are not at the end.
    fn at_star(&mut self, of: &str, at: &Spanned<String>) {
        let text = at.get_ref();
        let inner = text.strip_suffix("\\*").or(text.strip_suffix('*')).unwrap_or(text);
        if inner.contains('*') {
            let why = "only a * at the end is a wildcard; this one must be part of the name";
            self.tell(at, format!("{of}: {text:?}: {why}"));
        }
    }

    /// Warns about rights on files in rules that cover no files.
    fn at_files(&mut self, rule: &Spanned<RuleEntry>) {
        let RuleEntry { name, may, namespaces, locks, .. } = rule.get_ref();
        let is_of_files = |word: &Spanned<String>| {
            let right = word.get_ref().parse();
            matches!(right, Ok(Right::FilesRead | Right::FilesWrite))
        };
        let Some(at) = may.iter().find(|word| is_of_files(word)) else { return };
        let right = at.get_ref();
        let covers = |namespace: &String| {
            namespaces.iter().any(|at| Pattern::parse(at.get_ref()).matches(namespace))
        };
        // The same rights control the content of these namespaces.
        if self.around.content_namespaces.iter().any(covers) {
            return;
        }
        let Some(files) = &self.around.files_namespace else {
            return self.tell(
                at,
                format!("rule {name:?}: {right} has no effect: --dialects has no files"),
            );
        };
        if !covers(files) {
            let why = format!(
                "rule {name:?}: {right} has no effect: files are in the namespace {files:?} (--files-namespace), which \
                 this rule does not name"
            );
            return self.tell(at, why);
        }
        let reaches = |at: &Spanned<String>| Pattern::parse(at.get_ref()).reaches_into("/");
        if let Some(locks) = locks.as_ref().filter(|locks| !locks.iter().any(reaches)) {
            let why = format!(
                "rule {name:?}: {right} has no effect: file locks begin with /, and this rule has no such name"
            );
            let at = locks.first().unwrap_or(at);
            self.tell(at, why);
        }
    }

    /// Warns about quotas that never apply because an earlier quota matches everything they match.
    fn at_quotas(&mut self) {
        let mut before: Vec<(u32, bool, Vec<Pattern>)> = Vec::new();
        for quota in &self.file.quota {
            let entry = quota.get_ref();
            if let Some(who) = &entry.who {
                self.at_who("quota", who);
            }
            for at in entry.namespaces.iter().flatten() {
                self.at_pattern("quota", at);
            }
            let words = entry.who.as_ref().or(entry.namespaces.as_ref());
            let patterns: Vec<_> =
                words.into_iter().flatten().map(|at| Pattern::parse(at.get_ref())).collect();
            let is_of_who = entry.who.is_some();
            let covers = |(_, of_who, earlier): &&(u32, bool, Vec<Pattern>)| {
                let is_covered =
                    |own: &Pattern| earlier.iter().any(|it| covers(it, own, is_of_who));
                *of_who == is_of_who && patterns.iter().all(is_covered)
            };
            if let Some((line, ..)) = before.iter().find(covers) {
                let why = format!(
                    "quota: has no effect: the quota in line {line} matches the same requests, and the first match \
                     applies"
                );
                self.tell(quota, why);
            }
            before.push((self.source.line(quota.span().start), is_of_who, patterns));
        }
    }
}

/// Returns whether `one` matches every name that `other` matches.
fn covers(one: &Pattern, other: &Pattern, is_of_who: bool) -> bool {
    match (one, other) {
        // A star does not match `anonymous`.
        (Pattern::Prefix(_), Pattern::Exactly(name)) if is_of_who && **name == *ANONYMOUS => false,
        (one, Pattern::Exactly(name)) => one.matches(name),
        (Pattern::Prefix(one), Pattern::Prefix(other)) => other.starts_with(&**one),
        (Pattern::Exactly(_), Pattern::Prefix(_)) => false,
    }
}

/// Warns about expired keys, and about keys that no rule applies to.
fn at_keys(
    source: &Source,
    policy: &Policy,
    around: &Surroundings,
    told: &mut Vec<String>,
) -> Result<(), String> {
    let file: KeyFile = source.parse()?;
    let mut seen = HashSet::new();
    for entry in &file.key {
        let entry = entry.get_ref();
        let (name, id) = (entry.name.get_ref(), entry.id.get_ref());
        let ends = entry.expires.as_ref().and_then(|expires| epoch_ms(expires.get_ref()));
        if ends.is_some_and(|ends| around.wall_ms >= ends) {
            told.push(source.wrong(&entry.id, format!("key {name:?}, id {id}: has expired")));
        }
        let has_rule = !policy.about(&Principal::of_key(name, id)).is_empty();
        if !has_rule && seen.insert(name) {
            let why = format!("key {name:?}: no rule names key:{name}, so it has no rights");
            told.push(source.wrong(&entry.name, why));
        }
    }
    Ok(())
}
