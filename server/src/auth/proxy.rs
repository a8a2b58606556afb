//! Who asks, as a proxy says that was told of.
//!
//! It is believed by where it comes from and by its secret, never by the header. The same headers from anybody else
//! are only headers.

use axum::http::{HeaderMap, HeaderName};

use super::Principal;
use super::credential::Bad;
use super::policy::{From, NAME_BYTES_MAX, Proxy};
use super::way::Way;

/// What the principals and groups of the proxy begin with, and what their credential is called.
pub(super) const NAME: &str = "proxy";
/// What proxies write if they have nothing to write.
const NOTHING: [&str; 3] = ["", "-", "(null)"];

/// Whom the proxy names; nobody if this is not the proxy, or if it names nobody.
pub(super) fn user(
    proxy: &Proxy,
    headers: &HeaderMap,
    way: &Way<'_>,
) -> Result<Option<Principal>, Bad> {
    if !is_from(proxy, way) {
        return Ok(None);
    }
    if let Some((name, secret)) = &proxy.secret {
        match only(headers, name)? {
            Some(shown) if secret.is(shown.as_bytes()) => {}
            Some(_) => return Err("the secret of the proxy is wrong (secret-header)"),
            // Somebody else on that machine, or the proxy for a page that is for everybody.
            None => return Ok(None),
        }
    }
    let Some(user) = only(headers, &proxy.user_header)? else { return Ok(None) };
    // A name of blanks only would look like an empty name.
    let is_nothing = NOTHING.contains(&user.trim());
    if is_nothing || user.len() > NAME_BYTES_MAX || user.contains(char::is_control) {
        return Err("the proxy names nobody (user-header)");
    }
    let groups = match &proxy.groups_header {
        Some(name) => only(headers, name)?.unwrap_or_default(),
        None => "",
    };
    let groups = groups.split(proxy.groups_separator.as_str()).map(trimmed);
    let groups = groups.filter(|group| !NOTHING.contains(&group.trim()));
    let groups = groups.map(|group| format!("{NAME}:{group}").into()).collect();
    Ok(Some(Principal::known(format!("{NAME}:{user}").into(), groups, NAME.into())))
}

/// Does this come from where the proxy is?
pub(super) fn is_from(proxy: &Proxy, way: &Way<'_>) -> bool {
    proxy.from.iter().any(|from| match from {
        // Who relays connections says where they come from, never who asks.
        From::Network(network) => {
            let is_direct = !way.is_unix() && !way.is_relayed;
            is_direct && network.contains(&way.address.to_canonical())
        }
        From::Unix(path) => way.unix_path == Some(path.as_ref()),
        From::Mtls(name) => way.certificate.is_some_and(|names| names.has(name)),
    })
}

/// Is the proxy known by its certificate? Then that says nothing of who asks.
pub(super) fn is_by_certificate(proxy: &Proxy, way: &Way<'_>) -> bool {
    let named = |from: &From| match (from, way.certificate) {
        (From::Mtls(name), Some(names)) => names.has(name),
        _ => false,
    };
    proxy.from.iter().any(named)
}

/// The only value of a header. Two of them are one too many: the proxy wrote one, and whoever asks the other.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Bad> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => str::from_utf8(value.as_bytes())
            .map(|value| Some(trimmed(value)))
            .map_err(|_| "a header of the proxy is not text"),
        (Some(_), Some(_)) => Err("a header of the proxy is there twice"),
    }
}

/// Removes spaces and tabs, which HTTP allows around a value. A name that ends with another blank, such as U+00A0, is a
/// different name: the proxy distinguishes the two.
fn trimmed(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}
