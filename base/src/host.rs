//! The syntax of host names, as `Host` headers and URLs contain them.

use std::net::Ipv6Addr;

/// Returns whether the text is a host name or an address, optionally with a port. User names are not allowed.
pub fn is_host(text: &[u8]) -> bool {
    let (host, port) = match text.iter().rposition(|byte| *byte == b':') {
        Some(at) if !text[at..].contains(&b']') => (&text[..at], &text[at + 1..]),
        _ => (text, &b""[..]),
    };
    let is_port = port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
    is_port && (is_name(host) || is_ipv6(host))
}

fn is_name(text: &[u8]) -> bool {
    let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(byte);
    !text.is_empty() && text.iter().all(is_known)
}

fn is_ipv6(text: &[u8]) -> bool {
    let inside = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]"));
    let text = inside.and_then(|inside| str::from_utf8(inside).ok());
    text.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for good in [
            "localhost",
            "a.example",
            "a.example:80",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:8080",
            "a:",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "", ":80", "user@a", "a b", "a/b", "a:80:80", "a:x", "a:123456", "[::1", "::1",
            "[x]:1", "[]", "a,b/", "a#", "ü", "a\\b", "<a>", "[::1]x",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
