//! List cursors for lists of names: the last name in hexadecimal digits. A cursor stays valid across restarts, and
//! whether or not the lock of that name still exists.

use std::fmt::Write;

/// Returns the cursor of a name.
pub fn of(name: &str) -> String {
    name.bytes().fold(String::with_capacity(name.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the name of a cursor, or `None` if it is not one. Digits that are not UTF-8, which the server never sends,
/// are accepted as an arbitrary position in the list.
pub fn parse(cursor: &str) -> Option<Box<str>> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if cursor.is_empty() || !cursor.len().is_multiple_of(2) || !cursor.bytes().all(is_hex) {
        return None;
    }
    let bytes = (0..cursor.len()).step_by(2).map(|at| u8::from_str_radix(&cursor[at..at + 2], 16));
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().ok()?;
    Some(String::from_utf8_lossy(&bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_decodes_to_its_name_and_other_text_is_rejected() {
        for name in ["a", "orders/42", "schl\u{fc}ssel", "\u{0}"] {
            assert_eq!(parse(&of(name)).as_deref(), Some(name));
        }
        for wrong in ["", "6", "6G", "6A", "-1", "\u{fc}\u{fc}"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
