//! Conditional requests: `If-Match` and similar headers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};
use axum::http::{HeaderMap, HeaderValue};

use crate::content::Facts;

/// The result of checking the conditions of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Precondition {
    /// The request can proceed.
    Holds,
    /// The client already has this version of the file.
    NotModified,
    /// The file has another version than the request requires.
    Fails,
}

/// The error message for a condition that fails.
pub(crate) const UNMET: &str =
    "If-Match, If-None-Match or If-Unmodified-Since does not hold for it; nothing was changed";

/// Returns the entity tag of a version of a file.
pub(crate) fn tag(facts: &Facts) -> String {
    format!("\"{}\"", facts.version)
}

/// Returns a modification time in the format of HTTP headers.
pub(crate) fn date(modified_ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(modified_ms).unwrap_or(0));
    httpdate::fmt_http_date(UNIX_EPOCH + since)
}

/// Checks whether a request can change a file. `facts` is its current version, or `None` if the file does not exist.
pub(crate) fn of_write(headers: &HeaderMap, facts: Option<&Facts>) -> Precondition {
    let wanted_holds = match of(headers, IF_MATCH) {
        Some(tags) => matches(&tags, facts, str::trim),
        None => is_unmodified(headers, facts),
    };
    let unwanted_holds =
        of(headers, IF_NONE_MATCH).is_some_and(|tags| matches(&tags, facts, strong));
    if wanted_holds && !unwanted_holds { Precondition::Holds } else { Precondition::Fails }
}

/// Checks whether a request should be sent the file whose current version is `facts`.
pub(crate) fn of_read(headers: &HeaderMap, facts: &Facts) -> Precondition {
    let wanted_holds = match of(headers, IF_MATCH) {
        Some(tags) => matches(&tags, Some(facts), str::trim),
        None => is_unmodified(headers, Some(facts)),
    };
    if !wanted_holds {
        return Precondition::Fails;
    }
    let is_known = match of(headers, IF_NONE_MATCH) {
        Some(tags) => matches(&tags, Some(facts), strong),
        None => time(headers, IF_MODIFIED_SINCE).is_some_and(|since| seconds(facts) <= since),
    };
    if is_known { Precondition::NotModified } else { Precondition::Holds }
}

/// Checks `If-Range`: returns whether the part that the client already has is from this version of the file.
pub(crate) fn range_holds(headers: &HeaderMap, facts: &Facts) -> bool {
    let Some(text) = headers.get(IF_RANGE) else { return true };
    match time(headers, IF_RANGE) {
        Some(since) => seconds(facts) == since,
        None => *text == tag(facts).as_str(),
    }
}

fn is_unmodified(headers: &HeaderMap, facts: Option<&Facts>) -> bool {
    let since = time(headers, IF_UNMODIFIED_SINCE);
    // A file that does not exist has no modification time.
    since.zip(facts).is_none_or(|(since, facts)| seconds(facts) <= since)
}

/// Joins all values of a header into one list.
fn of(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    (!values.is_empty()).then(|| String::from_utf8_lossy(&values.join(&b',')).into_owned())
}

fn matches(tags: &str, facts: Option<&Facts>, read: fn(&str) -> &str) -> bool {
    let Some(facts) = facts else { return false };
    let tag = tag(facts);
    tags.split(',').map(read).any(|text| text == "*" || text == tag)
}

/// Returns a tag without its weak prefix. Weak tags are compared like strong ones, except in `If-Match`.
fn strong(tag: &str) -> &str {
    let tag = tag.trim();
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// Parses a date header to whole seconds since 1970. An invalid date is ignored.
fn time(headers: &HeaderMap, name: HeaderName) -> Option<i64> {
    let text = headers.get(name)?.to_str().ok()?;
    let at: SystemTime = httpdate::parse_http_date(text).ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

fn seconds(facts: &Facts) -> i64 {
    facts.modified_ms.div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let modified_ms = 784_111_777_500;
        Facts { size: 10, modified_ms, version: "v1".into(), kind: "text/plain".into() }
    }

    fn headers(text: &str) -> HeaderMap {
        let pairs = text.lines().filter_map(|line| line.split_once(": "));
        let parsed = pairs.map(|(name, value)| (name.parse::<HeaderName>(), value.parse()));
        parsed.map(|(name, value)| (name.unwrap(), value.unwrap())).collect()
    }

    #[test]
    fn a_write_goes_on_if_the_file_is_what_was_thought() {
        let then = "Sun, 06 Nov 1994 08:49:37 GMT";
        let before = "Sun, 06 Nov 1994 08:49:36 GMT";
        for (text, there, not_there) in [
            ("".into(), true, true),
            ("if-match: \"v1\"".into(), true, false),
            ("if-match: \"v0\", \"v1\"".into(), true, false),
            ("if-match: \"v0\"\nif-match: \"v1\"".into(), true, false),
            ("if-match: \"v0\"".into(), false, false),
            ("if-match: v1".into(), false, false),
            ("if-match: W/\"v1\"".into(), false, false),
            ("if-match: *".into(), true, false),
            ("if-none-match: *".into(), false, true),
            ("if-none-match: \"v1\"".into(), false, true),
            ("if-none-match: W/\"v1\"".into(), false, true),
            ("if-none-match: \"v0\"".into(), true, true),
            (format!("if-unmodified-since: {then}"), true, true),
            (format!("if-unmodified-since: {before}"), false, true),
            ("if-unmodified-since: yesterday".into(), true, true),
            (format!("if-match: \"v1\"\nif-unmodified-since: {before}"), true, false),
        ] {
            let holds = |facts| of_write(&headers(&text), facts) == Precondition::Holds;
            assert_eq!((holds(Some(&facts())), holds(None)), (there, not_there), "{text}");
        }
    }

    #[test]
    fn a_read_is_spared_what_it_has() {
        let then = "Sun, 06 Nov 1994 08:49:37 GMT";
        let before = "Sun, 06 Nov 1994 08:49:36 GMT";
        for (text, verdict) in [
            ("".into(), Precondition::Holds),
            ("if-none-match: \"v1\"".into(), Precondition::NotModified),
            ("if-none-match: W/\"v1\"".into(), Precondition::NotModified),
            ("if-none-match: *".into(), Precondition::NotModified),
            ("if-none-match: \"v0\"".into(), Precondition::Holds),
            (format!("if-modified-since: {then}"), Precondition::NotModified),
            (format!("if-modified-since: {before}"), Precondition::Holds),
            (format!("if-none-match: \"v0\"\nif-modified-since: {then}"), Precondition::Holds),
            ("if-match: \"v0\"".into(), Precondition::Fails),
            (format!("if-unmodified-since: {before}"), Precondition::Fails),
            ("if-match: \"v0\"\nif-none-match: \"v1\"".into(), Precondition::Fails),
        ] {
            assert_eq!(of_read(&headers(&text), &facts()), verdict, "{text}");
        }
    }

    #[test]
    fn a_part_is_sent_only_of_the_content_it_was_begun_with() {
        for (text, holds) in [
            ("", true),
            ("if-range: \"v1\"", true),
            ("if-range: W/\"v1\"", false),
            ("if-range: \"v0\"", false),
            ("if-range: Sun, 06 Nov 1994 08:49:37 GMT", true),
            ("if-range: Sun, 06 Nov 1994 08:49:38 GMT", false),
        ] {
            assert_eq!(range_holds(&headers(text), &facts()), holds, "{text}");
        }
    }

    #[test]
    fn dates_are_written_as_http_does() {
        assert_eq!(date(facts().modified_ms), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
