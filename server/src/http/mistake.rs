//! What a parser found wrong with a value, in the words of those who wrote the value.

/// How much of a wrong value is shown again.
const SHOWN_CHARS_MAX: usize = 100;

/// "invalid type: string "5", expected u64" is the parser's view; "must be a whole number, got string "5"" is ours.
pub(crate) fn in_words(parser_says: &str) -> String {
    let wrong = ["invalid type: ", "invalid value: "].iter().find_map(|kind| {
        let (got, expected) = parser_says.strip_prefix(kind)?.rsplit_once(", expected ")?;
        let (expected, place) = expected.split_once(" at line ").unwrap_or((expected, ""));
        let place = if place.is_empty() { String::new() } else { format!(" at line {place}") };
        Some(format!("must be {}, got {}{place}", allowed(expected), shortened(got)))
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
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
}

/// What the standard library says of numbers.
fn number(why: &str) -> &str {
    match why {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number"
        }
        "number too large to fit in target type" => "the number is too large",
        other => other,
    }
}

fn shortened(got: &str) -> String {
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
        let long = format!("invalid type: string \"{}\", expected u64", "x".repeat(9_999));
        assert!(in_words(&long).len() < 200);
    }
}
