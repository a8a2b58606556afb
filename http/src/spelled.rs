//! Writes names so that a form field or a label can contain them: without control or invisible characters.

use std::borrow::Cow;

use leasehold_base::text::is_hidden;

/// Returns the name itself, or in JSON quotes if it contains such characters or starts with a quote. So different names
/// are written differently.
pub fn spelled(name: &str) -> Cow<'_, str> {
    if !name.starts_with('"') && !name.contains(is_hidden) {
        return Cow::Borrowed(name);
    }
    let mut spelled = String::with_capacity(name.len() + 8);
    for c in serde_json::Value::from(name).to_string().chars() {
        if !is_hidden(c) {
            spelled.push(c);
            continue;
        }
        let mut units = [0; 2];
        c.encode_utf16(&mut units)
            .iter()
            .for_each(|unit| spelled.push_str(&format!("\\u{unit:04x}")));
    }
    Cow::Owned(spelled)
}

/// Returns the name that was written like this. Text that is not valid JSON quotes stands for itself.
pub fn meant(spelled: &str) -> Cow<'_, str> {
    let unquoted = spelled.starts_with('"').then(|| serde_json::from_str(spelled).ok()).flatten();
    unquoted.map_or(Cow::Borrowed(spelled), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_spelling_of_its_own_that_can_be_seen() {
        for (name, expected) in [
            ("shop", "shop"),
            ("a\\u0000b", "a\\u0000b"),
            ("a\u{0}b", "\"a\\u0000b\""),
            ("a\u{1b}[2J\n", "\"a\\u001b[2J\\n\""),
            ("a\u{7f}\u{202e}", "\"a\\u007f\\u202e\""),
            ("a\u{e0001}", "\"a\\udb40\\udc01\""),
            ("\"a\"", "\"\\\"a\\\"\""),
            ("", ""),
        ] {
            assert_eq!(spelled(name), expected);
            assert_eq!(meant(&spelled(name)), name);
        }
        assert_eq!(meant("\"no end"), "\"no end");
    }
}
