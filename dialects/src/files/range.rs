//! Requests for a part of a file: `Range: bytes=0-99`. Only one part is supported; a request for several gets the whole
//! file.

use axum::http::HeaderMap;
use axum::http::header::RANGE;

/// The part of a file to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The whole file.
    Whole,
    /// The bytes from the first position to the last, both included.
    Bytes(u64, u64),
    /// The part begins after the end of the file.
    Beyond,
}

/// Returns the part that a request wants of a file of this size. An invalid range is ignored.
pub(super) fn of(headers: &HeaderMap, size: u64) -> Part {
    let text = headers.get(RANGE).and_then(|value| value.to_str().ok());
    text.and_then(|text| parse(text, size)).unwrap_or(Part::Whole)
}

fn parse(text: &str, size: u64) -> Option<Part> {
    let (unit, range) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let part = match (first.trim(), last.trim()) {
        ("", n) => {
            let n = number(n)?;
            if n == 0 || size == 0 {
                Part::Beyond
            } else {
                Part::Bytes(size - n.min(size), size - 1)
            }
        }
        (first, "") => within(number(first)?, u64::MAX, size),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            within(first, last, size)
        }
    };
    Some(part)
}

fn within(first: u64, last: u64, size: u64) -> Part {
    if first >= size { Part::Beyond } else { Part::Bytes(first, last.min(size - 1)) }
}

/// Parses digits. A number that is too large becomes the largest one, which is larger than any file.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_part_of_what_is_there() {
        for (text, size, part) in [
            ("bytes=0-99", 1000, Part::Bytes(0, 99)),
            ("Bytes=5-5", 1000, Part::Bytes(5, 5)),
            ("bytes=990-2000", 1000, Part::Bytes(990, 999)),
            ("bytes=990-", 1000, Part::Bytes(990, 999)),
            ("bytes=-10", 1000, Part::Bytes(990, 999)),
            ("bytes=-2000", 1000, Part::Bytes(0, 999)),
            ("bytes=0-99999999999999999999999", 1000, Part::Bytes(0, 999)),
            ("bytes=1000-", 1000, Part::Beyond),
            ("bytes=99999999999999999999999-", 1000, Part::Beyond),
            ("bytes=-0", 1000, Part::Beyond),
            ("bytes=0-0", 0, Part::Beyond),
            ("bytes=-5", 0, Part::Beyond),
        ] {
            assert_eq!(parse(text, size), Some(part), "{text} of {size}");
        }
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5",
            "bytes=9-5",
            "bytes=a-b",
            "lines=0-5",
            "bytes=0-1,5-6",
            "bytes=+1-2",
            "bytes=0x1-2",
        ] {
            assert_eq!(parse(text, 1000), None, "{text}");
        }
    }
}
