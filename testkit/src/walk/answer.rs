//! Compares a response with the expected one.

use serde_json::Value;

/// Returns the first difference, if there is one. The response must contain everything in `expected`, but can contain
/// more.
pub(super) fn differs(expected: &Value, actual: &Value, at: &str) -> Option<String> {
    match expected {
        Value::Object(members) => members.iter().find_map(|(name, expected)| {
            let at = format!("{at}/{name}");
            match (expected.as_str(), actual.get(name)) {
                (Some("!"), None) => None,
                (Some("!"), Some(value)) => Some(format!("{at} is there: {value}")),
                (_, None) => Some(format!("{at} is missing")),
                (_, Some(actual)) => differs(expected, actual, &at),
            }
        }),
        Value::Array(items) => {
            let actual = actual.as_array().filter(|actual| actual.len() == items.len());
            let Some(actual) = actual else { return Some(format!("{at} has another length")) };
            let mut pairs = items.iter().zip(actual).enumerate();
            pairs
                .find_map(|(n, (expected, actual))| differs(expected, actual, &format!("{at}/{n}")))
        }
        Value::String(text) if text == "*" => actual.is_null().then(|| format!("{at} is null")),
        Value::String(text) if text.starts_with('~') => {
            let near: f64 = text[1..].parse().unwrap_or(f64::NAN);
            let is_near = actual.as_f64().is_some_and(|n| (n - near).abs() <= 0.05 * near.abs());
            (!is_near).then(|| format!("{at} is {actual}, not about {near}"))
        }
        _ => (!is_same(expected, actual)).then(|| format!("{at} is {actual}, not {expected}")),
    }
}

/// Treats 30 and 30.0 as equal.
fn is_same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_has_at_least_what_is_expected() {
        let actual = json!({"a": 1, "b": null, "c": [1, {"d": 30.2}], "e": "x"});
        for expected in [
            json!({}),
            json!({"a": 1.0}),
            json!({"b": null}),
            json!({"c": [1, {"d": "~30"}]}),
            json!({"e": "*", "f": "!"}),
        ] {
            assert_eq!(differs(&expected, &actual, ""), None, "{expected}");
        }
        for expected in [
            json!({"a": 2}),
            json!({"a": "1"}),
            json!({"b": "*"}),
            json!({"c": [1]}),
            json!({"c": [1, {"d": "~20"}]}),
            json!({"e": "!"}),
            json!({"f": "*"}),
        ] {
            assert!(differs(&expected, &actual, "").is_some(), "{expected}");
        }
    }
}
