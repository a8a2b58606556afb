//! Quotas: limits on leases, bytes, event streams and request rates.

use leasehold_core::Quota as Allowed;
use serde::Deserialize;
use toml::Spanned;

use super::file::check_who;
use super::pattern::Pattern;
use super::rule::is_named;
use super::source::Source;
use crate::Principal;

/// One quota of the auth file.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    pub(super) of: Whose,
    pub(crate) requests_per_second: Option<u32>,
    pub leases: Option<Allowed>,
    /// Maximum bytes of the leases: metadata, names, request ids, waits.
    pub bytes: Option<Allowed>,
    /// Maximum event streams.
    pub streams: Option<Allowed>,
    /// The line of the quota in the auth file.
    pub line: u32,
}

/// What a quota applies to.
#[derive(Clone, Debug)]
pub(super) enum Whose {
    /// Each matching principal separately.
    Principals(Vec<Pattern>),
    /// Each matching namespace separately, for all principals together.
    Namespaces(Vec<Pattern>),
}

/// A quota as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct QuotaEntry {
    pub(super) who: Option<Vec<Spanned<String>>>,
    pub(super) namespaces: Option<Vec<Spanned<String>>>,
    requests_per_second: Option<Spanned<u32>>,
    leases: Option<u32>,
    bytes: Option<u32>,
    streams: Option<u32>,
}

impl Quota {
    pub(super) fn is_about(&self, who: &Principal) -> bool {
        matches!(&self.of, Whose::Principals(principals) if is_named(principals, who))
    }

    pub(super) fn is_about_namespace(&self, namespace: &str) -> bool {
        let Whose::Namespaces(patterns) = &self.of else { return false };
        patterns.iter().any(|pattern| pattern.matches(namespace))
    }
}

/// Reads and checks one quota.
pub(super) fn read(source: &Source, entry: &Spanned<QuotaEntry>) -> Result<Quota, String> {
    let QuotaEntry { who, namespaces, requests_per_second, leases, bytes, streams } =
        entry.get_ref();
    let wrong = |why: &str| Err(source.wrong(entry, format!("quota: {why}")));
    let of = match (who, namespaces) {
        (Some(who), None) if !who.is_empty() => {
            check_who(source, "quota", who)?;
            let patterns = who.iter().map(|text| Pattern::parse(text.get_ref()));
            Whose::Principals(patterns.collect())
        }
        (None, Some(namespaces)) if !namespaces.is_empty() => {
            let patterns = namespaces.iter().map(|text| Pattern::parse(text.get_ref()));
            Whose::Namespaces(patterns.collect())
        }
        (Some(_), Some(_)) => {
            return wrong("has who and namespaces; use a separate quota for each");
        }
        _ => return wrong("who or namespaces is required, and must not be empty"),
    };
    if namespaces.is_some() && requests_per_second.is_some() {
        return wrong("requests-per-second needs who: requests are counted by principal");
    }
    if namespaces.is_some() && (bytes.is_some() || streams.is_some()) {
        return wrong("bytes and streams need who: they are counted by principal");
    }
    let has_number = [leases, bytes, streams].iter().any(|n| n.is_some());
    if requests_per_second.is_none() && !has_number {
        return wrong("requests-per-second, leases, bytes or streams is required");
    }
    if requests_per_second.as_ref().is_some_and(|rate| *rate.get_ref() == 0) {
        return wrong("requests-per-second must be more than 0");
    }
    let line = source.line(entry.span().start);
    let allowed = |max: &Option<u32>| max.map(|max| Allowed { max, line });
    Ok(Quota {
        of,
        requests_per_second: requests_per_second.as_ref().map(|rate| *rate.get_ref()),
        leases: allowed(leases),
        bytes: allowed(bytes),
        streams: allowed(streams),
        line,
    })
}
