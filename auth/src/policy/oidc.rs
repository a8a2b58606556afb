//! `[[oidc]]`: the token issuers that are trusted, and how their tokens are used.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use serde::Deserialize;
use toml::Spanned;

use super::source::{Beside, Secret, Source};
use super::url;
use crate::issuer::{Algorithm, KeyRing};

/// Names that are reserved because they are prefixes of other principals.
const TAKEN_NAMES: [&str; 4] = ["key", "proxy", "mtls", "anonymous"];
/// Maximum leeway for clock differences.
const LEEWAY_MAX: Duration = Duration::from_secs(300);
/// Minimum lifetime of a console session; the maximum follows.
const SESSION_MIN: Duration = Duration::from_secs(60);
const SESSION_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A token issuer as configured in the auth file.
#[derive(Clone, PartialEq, Debug)]
pub struct Oidc {
    /// Prefix of the issuer's principals and groups.
    pub name: Arc<str>,
    /// The identifier of the issuer: a URL.
    pub issuer: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) principal_claim: String,
    pub(crate) groups_claim: String,
    pub(crate) leeway_ms: i64,
    pub(crate) keys: KeySource,
    pub(crate) introspection: Option<Introspection>,
    /// Settings for signing in to the console; `None` if users cannot sign in with this issuer.
    pub login: Option<Login>,
}

/// Where an issuer's signing keys come from.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum KeySource {
    /// The URL in the issuer's discovery document.
    Discovery,
    At(Uri),
    /// A file that is read together with the auth file.
    File(KeyRing),
}

/// The issuer's introspection endpoint, which resolves opaque tokens.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Introspection {
    pub(crate) url: Uri,
    pub(crate) client_id: String,
    pub(crate) secret: Secret,
}

/// Settings for signing in to the console.
#[derive(Clone, PartialEq, Debug)]
pub struct Login {
    pub(crate) client_id: String,
    /// The client secret; `None` for a public client.
    pub(crate) secret: Option<Secret>,
    /// The lifetime of a console session.
    pub session: Duration,
    /// The URL to which the provider redirects users after the sign-in.
    pub(crate) redirect_uri: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct OidcEntry {
    name: Spanned<String>,
    issuer: Spanned<String>,
    audiences: Spanned<Vec<String>>,
    algorithms: Option<Vec<Spanned<String>>>,
    principal_claim: Option<Spanned<String>>,
    groups_claim: Option<Spanned<String>>,
    leeway: Option<Spanned<String>>,
    jwks_url: Option<Spanned<String>>,
    pub(super) jwks_file: Option<Spanned<String>>,
    introspection: Option<Spanned<IntrospectionEntry>>,
    login: Option<Spanned<LoginEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct IntrospectionEntry {
    url: Spanned<String>,
    client_id: String,
    secret_file: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LoginEntry {
    client_id: Spanned<String>,
    secret_file: Option<Spanned<String>>,
    session: Option<Spanned<String>>,
}

/// Reads all issuers. Names and issuer URLs must be unique.
pub(super) fn read(
    source: &Source,
    beside: &mut Beside<'_>,
    entries: &[Spanned<OidcEntry>],
    public_url: Option<&Spanned<String>>,
) -> Result<Vec<Oidc>, String> {
    let (mut names, mut issuers) = (BTreeSet::new(), BTreeSet::new());
    let mut all = Vec::new();
    for entry in entries {
        let OidcEntry { name, issuer, introspection, .. } = entry.get_ref();
        let text = name.get_ref();
        let twice = |what: &str| format!("oidc {text:?}: {what} of another [[oidc]]");
        if !names.insert(text) {
            return Err(source.wrong(name, twice("has the name")));
        }
        if !issuers.insert(issuer.get_ref()) {
            return Err(source.wrong(issuer, twice("has the issuer")));
        }
        let has_one = |oidc: &Oidc| oidc.introspection.is_some();
        if let Some(introspection) = introspection.as_ref().filter(|_| all.iter().any(has_one)) {
            let why = "only one [[oidc]] can have introspection: an opaque token does not name its issuer";
            return Err(source.wrong(introspection, format!("oidc {text:?}: {why}")));
        }
        all.push(one(source, beside, entry.get_ref(), public_url)?);
    }
    Ok(all)
}

fn one(
    source: &Source,
    beside: &mut Beside<'_>,
    entry: &OidcEntry,
    public_url: Option<&Spanned<String>>,
) -> Result<Oidc, String> {
    let name = entry.name.get_ref();
    let told = |why: String| format!("oidc {name:?}: {why}");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !(1..=40).contains(&name.len()) || !name.chars().all(is_word) {
        let why = "name: must be 1 to 40 letters, digits, - and _".into();
        return Err(source.wrong(&entry.name, told(why)));
    }
    if TAKEN_NAMES.contains(&name.as_str()) {
        let why = format!("name: {name:?} is the prefix of other principals; choose another");
        return Err(source.wrong(&entry.name, told(why)));
    }
    let url = |at: &Spanned<String>, what: &str| {
        let parsed = url::parse(at.get_ref());
        parsed.map_err(|why| source.wrong(at, told(format!("{what}: {why}"))))
    };
    url(&entry.issuer, "issuer")?;
    let audiences = entry.audiences.get_ref();
    if audiences.is_empty() || audiences.iter().any(String::is_empty) {
        let why = "audiences: must contain at least one".into();
        return Err(source.wrong(&entry.audiences, told(why)));
    }
    let leeway = length(source, &entry.leeway, "leeway", name, Duration::ZERO, LEEWAY_MAX)?;
    let keys = match (&entry.jwks_url, &entry.jwks_file) {
        (None, None) => KeySource::Discovery,
        (Some(at), None) => KeySource::At(url(at, "jwks-url")?),
        (None, Some(file)) => {
            let wrong = |why: String| source.wrong(file, told(format!("jwks-file: {why}")));
            let keys = beside.source(file.get_ref()).map_err(wrong)?;
            let ring = KeyRing::parse_file(keys.text.as_bytes());
            KeySource::File(ring.map_err(|why| wrong(format!("{} {why}", keys.path.display())))?)
        }
        (Some(_), Some(file)) => {
            let why = "jwks-url and jwks-file: use only one".into();
            return Err(source.wrong(file, told(why)));
        }
    };
    let introspection = entry.introspection.as_ref().map(Spanned::get_ref);
    let introspection = introspection.map(|entry| {
        let (url, client_id) = (url(&entry.url, "introspection.url")?, entry.client_id.clone());
        let secret = beside.secret(entry.secret_file.get_ref(), 1).map_err(|why| {
            source.wrong(&entry.secret_file, told(format!("introspection.secret-file: {why}")))
        })?;
        Ok::<_, String>(Introspection { url, client_id, secret })
    });
    let introspection = introspection.transpose()?;
    let login = match &entry.login {
        Some(login) => Some(read_login(source, beside, entry, login.get_ref(), public_url)?),
        None => None,
    };
    Ok(Oidc {
        name: name.as_str().into(),
        issuer: entry.issuer.get_ref().clone(),
        audiences: audiences.clone(),
        algorithms: algorithms(source, entry)?,
        principal_claim: claim(source, name, &entry.principal_claim, "sub")?,
        groups_claim: claim(source, name, &entry.groups_claim, "groups")?,
        leeway_ms: leeway.unwrap_or(Duration::from_secs(30)).as_millis() as i64,
        keys,
        introspection,
        login,
    })
}

fn algorithms(source: &Source, entry: &OidcEntry) -> Result<Vec<Algorithm>, String> {
    let Some(words) = &entry.algorithms else {
        return Ok(vec![Algorithm::Rs256, Algorithm::Es256]);
    };
    let name = entry.name.get_ref();
    if words.is_empty() {
        let why = format!("oidc {name:?}: algorithms: must not be empty");
        return Err(source.wrong(&entry.name, why));
    }
    let parse = |word: &Spanned<String>| {
        Algorithm::parse(word.get_ref()).ok_or_else(|| {
            let (word_text, allowed) = (word.get_ref(), Algorithm::names());
            let why = format!("unknown algorithm {word_text:?}; allowed: {allowed}");
            source.wrong(word, format!("oidc {name:?}: algorithms: {why}"))
        })
    };
    words.iter().map(parse).collect()
}

fn claim(
    source: &Source,
    name: &str,
    given: &Option<Spanned<String>>,
    usual: &str,
) -> Result<String, String> {
    let Some(given) = given else { return Ok(usual.into()) };
    if given.get_ref().is_empty() {
        return Err(source.wrong(given, format!("oidc {name:?}: a claim has a name")));
    }
    Ok(given.get_ref().clone())
}

fn read_login(
    source: &Source,
    beside: &mut Beside<'_>,
    entry: &OidcEntry,
    login: &LoginEntry,
    public_url: Option<&Spanned<String>>,
) -> Result<Login, String> {
    let name = entry.name.get_ref();
    let told = |why: &str| format!("oidc {name:?}: login: {why}");
    let Some(public_url) = public_url else {
        let why = told("needs public-url: the provider redirects browsers there");
        return Err(source.wrong(&login.client_id, why));
    };
    url::parse(public_url.get_ref())
        .map_err(|why| source.wrong(public_url, format!("public-url: {why}")))?;
    if entry.audiences.get_ref().contains(login.client_id.get_ref()) {
        let why = told(
            "client-id must not be one of the audiences: the server would accept an ID token as an API token",
        );
        return Err(source.wrong(&login.client_id, why));
    }
    let session = length(source, &login.session, "login.session", name, SESSION_MIN, SESSION_MAX)?;
    let secret = login.secret_file.as_ref().map(|file| {
        let wrong = |why: String| source.wrong(file, told(&format!("secret-file: {why}")));
        beside.secret(file.get_ref(), 1).map_err(wrong)
    });
    let secret = secret.transpose()?;
    Ok(Login {
        client_id: login.client_id.get_ref().clone(),
        secret,
        session: session.unwrap_or(Duration::from_secs(12 * 3600)),
        redirect_uri: format!("{}/console/callback", public_url.get_ref().trim_end_matches('/')),
    })
}

/// Parses a duration such as `30s`, `5m`, `12h` or `7d` and checks its bounds.
fn length(
    source: &Source,
    given: &Option<Spanned<String>>,
    what: &str,
    name: &str,
    min: Duration,
    max: Duration,
) -> Result<Option<Duration>, String> {
    let Some(given) = given else { return Ok(None) };
    let length = duration(given.get_ref()).filter(|length| (min..=max).contains(length));
    length.map(Some).ok_or_else(|| {
        let (text, min, max) = (given.get_ref(), min.as_secs(), max.as_secs());
        let why = format!(
            "{what}: {text:?} is not a duration such as 30s, 5m, 12h, 7d, from {min}s to {max}s"
        );
        source.wrong(given, format!("oidc {name:?}: {why}"))
    })
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_has_a_number_and_a_unit() {
        for (text, seconds) in
            [("30s", 30), ("5m", 300), ("12h", 43_200), ("7d", 604_800), ("0s", 0)]
        {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "30", "s", "1.5h", "30 s", "-1s", "30x", "99999999999999999999s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
