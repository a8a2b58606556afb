//! Rephrases parser errors in terms of the JSON that the client sent.

/// Maximum characters of a wrong value that an error repeats.
const SHOWN_CHARS_MAX: usize = 100;

/// Rephrases a parser error: `invalid type: string "5", expected u64` becomes `must be a whole number, got string "5"`.
pub fn in_words(parser_says: &str) -> String {
    let kinds = ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant "];
    let wrong = kinds.iter().find_map(|kind| {
        let rest = parser_says.strip_prefix(kind)?;
        // The sent value can contain these words, and the expectation can be a list with commas.
        let (got, expected) = match *kind {
            "unknown variant " => rest.rsplit_once("`, expected "),
            _ => rest.rsplit_once(", expected "),
        }?;
        let got = got.trim_start_matches('`');
        let (expected, place) = expected.split_once(" at line ").unwrap_or((expected, ""));
        let place = if place.is_empty() { String::new() } else { format!(" at line {place}") };
        Some(format!("must be {}, got {}{place}", allowed(expected), received(kind, got)))
    });
    wrong.unwrap_or_else(|| match parser_says.rsplit_once(": ") {
        Some((field, why)) => format!("{field}: {}", number(why)),
        None => number(parser_says).into(),
    })
}

fn allowed(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i32" | "i64" => "a whole number",
        "a map" => "an object",
        "a sequence" => "an array",
        other if other.starts_with("one of ") => &other["one of ".len()..],
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
}

/// Returns the sent value in JSON terms.
fn received(kind: &str, got: &str) -> String {
    let number = ["floating point `", "integer `", "boolean `"];
    let bare = number.iter().find_map(|kind| got.strip_prefix(kind)?.strip_suffix('`'));
    match (kind, got) {
        ("unknown variant ", _) => format!("`{}`", shortened(got)),
        ("invalid length ", _) => format!("{} elements", shortened(got)),
        (_, "sequence") => "an array".into(),
        (_, "map") => "an object".into(),
        _ => shortened(bare.unwrap_or(got)),
    }
}

/// Returns the standard library's reason why text is not a number.
fn number(why: &str) -> &str {
    match why {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number"
        }
        "number too large to fit in target type" => "the number is too large",
        other => other,
    }
}

/// Shortens a wrong value.
pub fn shortened(got: &str) -> String {
    let mut shown: String = got.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < got.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_told_of_and_not_the_parser() {
        assert_eq!(
            in_words("invalid type: string \"5\", expected u64 at line 1 column 8"),
            "must be a whole number, 0 or more, got string \"5\" at line 1 column 8"
        );
        assert_eq!(
            in_words("limit: invalid digit found in string"),
            "limit: must be a whole number"
        );
        assert_eq!(in_words("missing field `ttl_ms`"), "missing field `ttl_ms`");
        for (parser_says, in_our_words) in [
            ("invalid type: sequence, expected an object", "must be an object, got an array"),
            ("invalid type: map, expected a string", "must be a string, got an object"),
            (
                "invalid type: floating point `1.5`, expected u64 at line 1 column 9",
                "must be a whole number, 0 or more, got 1.5 at line 1 column 9",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "must be a whole number, 0 or more, got -1",
            ),
            (
                "invalid length 1, expected struct Wanted with 2 elements",
                "must be an object, got 1 elements",
            ),
            (
                "unknown variant `foo`, expected `exclusive` or `shared` at line 1 column 5",
                "must be `exclusive` or `shared`, got `foo` at line 1 column 5",
            ),
            (
                "unknown variant `x`, expected one of `a`, `b`, `c`",
                "must be `a`, `b`, `c`, got `x`",
            ),
        ] {
            assert_eq!(in_words(parser_says), in_our_words);
        }
        let long = format!("invalid type: string \"{}\", expected u64", "x".repeat(9_999));
        assert!(in_words(&long).len() < 200);
    }
}
