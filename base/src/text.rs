//! Makes text from clients safe to display.

use std::borrow::Cow;

/// Returns whether a character is invisible or changes how neighboring characters are shown. Such a character could
/// make two different names look the same. Characters that join letters are allowed, because some scripts need them.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}'
        )
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the text with control and invisible characters escaped, so that a terminal does not obey them.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Maximum characters of a proof that are shown, but at most half of it: enough to recognize it, too few to prove the
/// lock.
const SHOWN_CHARS: usize = 8;

/// Returns the beginning of a proof.
pub fn shortened(proof: &str) -> String {
    let n_shown = SHOWN_CHARS.min(proof.chars().count() / 2);
    let shown: String = proof.chars().take(n_shown).collect();
    format!("{shown}...")
}
