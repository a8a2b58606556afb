//! What clients attach to their leases: any JSON, but not nested without end. Whoever reads it later may not be able
//! to.

/// How deep JSON is nested: a number is 0, `[]` is 1.
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

/// What is wrong with metadata that is nested too deep.
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
