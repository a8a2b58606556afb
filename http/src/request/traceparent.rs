//! Parses the W3C `traceparent` header.

use axum::http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace that a request belongs to, as the client sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceContext {
    /// The id of the trace.
    pub trace_id: u128,
    /// The id of the client's span that made the request.
    pub parent_id: u64,
    /// Whether the client asks for the trace to be recorded.
    pub is_sampled: bool,
}

/// Prints the trace id as 32 hexadecimal digits.
impl std::fmt::Display for TraceContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.trace_id)
    }
}

impl TraceContext {
    /// Returns the trace context of the headers. A malformed or duplicate header is ignored.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut all = headers.get_all(TRACEPARENT).iter();
        let text = all.next().filter(|_| all.next().is_none())?.to_str().ok()?;
        Self::parse(text.trim())
    }

    /// Parses `00-<32 digits>-<16 digits>-<2 digits>`. Later versions can append more fields.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = number(parts.next()?, 2)?;
        let trace_id = number(parts.next()?, 32)?;
        let parent_id = number(parts.next()?, 16)?;
        let flags = number(parts.next()?, 2)?;
        let is_known = version != 0xff && (version > 0 || parts.next().is_none());
        (is_known && trace_id != 0 && parent_id != 0).then_some(Self {
            trace_id,
            parent_id: parent_id as u64,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Parses exactly `n_digits` lower-case hexadecimal digits.
fn number(text: &str, n_digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_number = text.len() == n_digits && text.bytes().all(is_digit);
    is_number.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(values: &[&str]) -> Option<TraceContext> {
        let value = |text: &&str| (TRACEPARENT, HeaderValue::from_str(text).expect("a value"));
        TraceContext::of(&values.iter().map(value).collect())
    }

    #[test]
    fn a_traceparent_is_read_as_the_standard_says() {
        let good = TraceContext {
            trace_id: 0x4bf92f3577b34da6a3ce929d0e0e4736,
            parent_id: 0x00f067aa0ba902b7,
            is_sampled: true,
        };
        assert_eq!(of(&[GOOD]), Some(good));
        assert_eq!(of(&[&format!("cc{}-more", &GOOD[2..])]), Some(good), "a version to come");
        let unsampled = format!("{}-00", &GOOD[..52]);
        assert_eq!(of(&[&unsampled]), Some(TraceContext { is_sampled: false, ..good }));
        assert_eq!(of(&[GOOD, GOOD]), None, "which?");
        assert_eq!(of(&[]), None);
        let wrong = [
            format!("ff{}", &GOOD[2..]),
            format!("{GOOD}-more"),
            GOOD.to_uppercase(),
            GOOD.replace("4736", "473"),
            GOOD.replace("4736", "+736"),
            format!("00-{:032x}-00f067aa0ba902b7-01", 0),
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{:016x}-01", 0),
            "00".into(),
            "".into(),
        ];
        for text in &wrong {
            assert_eq!(of(&[text]), None, "{text}");
        }
    }
}
