//! Parses the `Accept` header.

use axum::http::{HeaderMap, Method, header};

/// Returns how much the client wants any of these media types, from 0 (not at all) to 1. Wildcards match only if
/// `kinds` contains them (`text/*`, `*/*`).
pub fn quality(headers: &HeaderMap, kinds: &[&str]) -> f32 {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = values.flat_map(|value| value.split(',')).filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        kinds.iter().any(|known| known.eq_ignore_ascii_case(kind)).then(|| weight(parts))
    });
    ranges.fold(0.0, f32::max)
}

/// Returns whether the client is a browser that wants a page. A client that prefers JSON is a program.
pub fn wants_page(method: &Method, headers: &HeaderMap) -> bool {
    let is_look = method == Method::GET || method == Method::HEAD;
    let page = quality(headers, &["text/html"]);
    let json = quality(headers, &["application/json", "application/*", "*/*"]);
    is_look && page > 0.0 && page >= json
}

/// Returns the `q` parameter of a media range. An invalid weight counts as 0.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> f32 {
    let q = parameters.find_map(|parameter| {
        parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="))
    });
    let Some(q) = q else { return 1.0 };
    q.trim().parse().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_best_of_all_ranges_counts() {
        let quality = |accept: &'static str, kinds: &[&str]| {
            quality(
                &[(header::ACCEPT, HeaderValue::from_static(accept))].into_iter().collect(),
                kinds,
            )
        };
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        assert_eq!(quality(browser, &["text/html"]), 1.0);
        assert_eq!(quality(browser, &["application/xml"]), 0.9);
        assert_eq!(quality(browser, &["image/png", "*/*"]), 0.8);
        assert_eq!(quality(browser, &["image/png"]), 0.0);
        assert_eq!(quality("a/b;x=1; Q=0.25 , a/b;q=0.5", &["A/B"]), 0.5);
        for odd in ["a/b;q=2", "a/b;q=-1", "a/b;q=NaN", "a/b;q=", ",;,", ""] {
            assert_eq!(quality(odd, &["a/b"]), 0.0, "{odd}");
        }
        assert_eq!(super::quality(&HeaderMap::new(), &["*/*"]), 0.0);
    }
}
