//! Metadata that clients attach to their leases: any JSON, up to a nesting depth. Deeper JSON might be more than
//! other clients can parse when they read it.

/// Returns how deep JSON is nested: 0 for a number, 1 for `[]`.
pub(super) fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Returns the error for metadata that is nested too deep.
pub(super) fn too_deep(depth_max: usize) -> String {
    format!("must be nested at most {depth_max} deep (metadata-depth-max)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_texts_do_not_count() {
        for (json, expected) in [
            ("7", 0),
            ("[]", 1),
            (r#"{"a":[{}],"b":[]}"#, 3),
            (r#""[[[[""#, 0),
            (r#"["\"[[", "\\", [1]]"#, 2),
        ] {
            assert_eq!(depth(json.as_bytes()), expected, "{json}");
        }
    }
}
