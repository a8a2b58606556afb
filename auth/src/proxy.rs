//! Identifies callers by the headers of the configured proxy (`[proxy]`).
//!
//! The proxy is recognized by where it connects from and by its secret. From any other client these headers are
//! ignored.

use http::{HeaderMap, HeaderName};

use super::Principal;
use super::credential::Bad;
use super::policy::{From, NAME_BYTES_MAX, Proxy};
use super::way::Way;

/// Prefix of the principals and groups that the proxy names, and the name of their credential.
pub(super) const NAME: &str = "proxy";
/// Values that proxies send in place of an empty value.
const NOTHING: [&str; 3] = ["", "-", "(null)"];

/// Returns the principal that the proxy names, or `None` if the request is not from the proxy or carries no user.
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
            // Another process on the proxy's machine, or the proxy for a public page.
            None => return Ok(None),
        }
    }
    let Some(user) = only(headers, &proxy.user_header)? else { return Ok(None) };
    // A name of blanks only would look like an empty name.
    let is_nothing = NOTHING.contains(&user.trim());
    if is_nothing || user.len() > NAME_BYTES_MAX || user.contains(char::is_control) {
        return Err("the proxy sends no user (user-header)");
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

/// Returns whether the request comes from a place where the proxy is expected.
pub(super) fn is_from(proxy: &Proxy, way: &Way<'_>) -> bool {
    proxy.from.iter().any(|from| match from {
        // A PROXY protocol relay reports the client's address, not its identity.
        From::Network(network) => {
            let is_direct = !way.is_unix() && !way.is_relayed;
            is_direct && network.contains(&way.address.to_canonical())
        }
        From::Unix(path) => way.unix_path == Some(path.as_ref()),
        From::Mtls(name) => way.certificate.is_some_and(|names| names.has(name)),
    })
}

/// Returns whether the proxy is recognized by its certificate. That certificate then identifies the proxy, not the
/// user.
pub(super) fn is_by_certificate(proxy: &Proxy, way: &Way<'_>) -> bool {
    let named = |from: &From| match (from, way.certificate) {
        (From::Mtls(name), Some(names)) => names.has(name),
        _ => false,
    };
    proxy.from.iter().any(named)
}

/// Returns the value of a header. Fails if it occurs twice: one value could be the proxy's and the other the client's.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Bad> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => str::from_utf8(value.as_bytes())
            .map(|value| Some(trimmed(value)))
            .map_err(|_| "a header of the proxy is not text"),
        (Some(_), Some(_)) => Err("a proxy header appears twice"),
    }
}

/// Removes spaces and tabs, which HTTP allows around a value. A name that ends with another blank, such as U+00A0, is a
/// different name: the proxy distinguishes the two.
fn trimmed(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}
