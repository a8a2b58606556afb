//! The cookies of those who sign in.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::auth::credential::Bad;

/// Stands for who is signed in. Its prefix has browsers take it from this host only, for all of it, over TLS.
pub(crate) const SESSION: &str = "__Host-leasehold";
/// What a browser knows of a sign-in it has begun.
pub(crate) const ATTEMPT: &str = "__Host-leasehold-sign-in";

/// The cookie of this name. HTTP/2 may send cookies one by one; two of one name are nobody's.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Bad> {
    let pairs = headers.get_all(header::COOKIE).iter().flat_map(|value: &HeaderValue| {
        value.to_str().unwrap_or_default().split(';').filter_map(|pair| pair.split_once('='))
    });
    let mut found = pairs.filter(|(own, _)| own.trim() == name).map(|(_, value)| value.trim());
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err("the cookie of the sign-in is there twice"),
        (value, _) => Ok(value),
    }
}

/// Sent with requests of the server's own pages only.
pub(crate) fn session(secret: &str, seconds: i64) -> String {
    format!("{SESSION}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict")
}

/// Sent also when another site sends somebody back.
pub(crate) fn attempt(value: &str, seconds: i64) -> String {
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
