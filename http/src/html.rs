//! Escapes text for HTML pages.

use leasehold_base::text::is_hidden;

/// Escapes text so that browsers show it literally. Invisible characters are replaced by a visible sign.
pub fn escape(text: &str) -> String {
    escape_but(text, |_| false)
}

/// Escapes text with several lines.
pub fn escape_lines(text: &str) -> String {
    escape_but(text, |c| c == '\n' || c == '\t')
}

fn escape_but(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_hidden(c) && !is_kept(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_what_hides_is_seen() {
        let text = "<b a='1' c=\"2\">&\u{0}\u{7f}\u{202e}\u{200b}\u{feff}é\u{200d}";
        let shown = "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}é\u{200d}";
        assert_eq!(escape(text), shown);
        assert_eq!(
            (escape("a\n\tb"), escape_lines("a\n\tb<\u{0}")),
            ("a\u{fffd}\u{fffd}b".into(), "a\n\tb&lt;\u{fffd}".into())
        );
    }
}
