//! The cookies used for sign-ins.

use http::{HeaderMap, HeaderValue, header};

use crate::credential::Bad;

/// The session cookie. With the `__Host-` prefix browsers accept it only from this host, for all paths, over TLS.
pub const SESSION: &str = "__Host-leasehold";
/// The cookie of a sign-in in progress.
pub const ATTEMPT: &str = "__Host-leasehold-sign-in";

/// Returns the value of the cookie with this name. Fails if there are two. HTTP/2 can send each cookie in its own
/// header.
pub fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Bad> {
    let pairs = headers.get_all(header::COOKIE).iter().flat_map(|value: &HeaderValue| {
        value.to_str().unwrap_or_default().split(';').filter_map(|pair| pair.split_once('='))
    });
    let mut found = pairs.filter(|(own, _)| own.trim() == name).map(|(_, value)| value.trim());
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err("the sign-in cookie appears twice"),
        (value, _) => Ok(value),
    }
}

/// Returns the `Set-Cookie` value of a session. Browsers send the cookie only with requests from the server's own
/// pages.
pub fn session(secret: &str, seconds: i64) -> String {
    format!("{SESSION}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict")
}

/// Returns the `Set-Cookie` value of a sign-in in progress. Browsers also send the cookie when the issuer redirects the
/// user back.
pub fn attempt(value: &str, seconds: i64) -> String {
    format!("{ATTEMPT}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_there_once() {
        let found = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::COOKIE, HeaderValue::from_static(value));
            }
            only(&headers, SESSION).map(|value| value.map(str::to_owned))
        };
        assert_eq!(found(&[]), Ok(None));
        assert_eq!(found(&["a=b; c"]), Ok(None));
        assert_eq!(found(&["a=b; __Host-leasehold=x; c=d"]), Ok(Some("x".into())));
        assert_eq!(found(&["a=b", "__Host-leasehold=x"]), Ok(Some("x".into())));
        assert_eq!(found(&["__Host-leasehold-sign-in=x"]), Ok(None));
        assert_eq!(found(&["__host-leasehold=x"]), Ok(None));
        assert!(found(&["__Host-leasehold=x; __Host-leasehold=x"]).is_err());
        assert!(found(&["__Host-leasehold=x", "__Host-leasehold=y"]).is_err());
    }
}
