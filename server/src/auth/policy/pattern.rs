//! Patterns: a name, or the beginning of names.

/// Compared byte by byte. Only a `*` at the end is special, and `\*` there is a star like any other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pattern {
    /// This and nothing else.
    Exactly(Box<str>),
    /// Whatever begins like this.
    Prefix(Box<str>),
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Self {
        if let Some(literal) = text.strip_suffix("\\*") {
            return Self::Exactly(format!("{literal}*").into());
        }
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.into()),
            None => Self::Exactly(text.into()),
        }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Pattern::Exactly(exact) => **exact == *name,
            Pattern::Prefix(prefix) => name.starts_with(&**prefix),
        }
    }

    /// Does it match every name there is?
    pub(crate) fn is_all(&self) -> bool {
        matches!(self, Pattern::Prefix(prefix) if prefix.is_empty())
    }

    /// Could it match a name that begins with `prefix`?
    pub(crate) fn reaches_into(&self, prefix: &str) -> bool {
        match self {
            Pattern::Exactly(exact) => exact.starts_with(prefix),
            Pattern::Prefix(own) => own.starts_with(prefix) || prefix.starts_with(&**own),
        }
    }

    /// Does it match names that only happen to begin alike, `shopping` beside `shop`?
    pub(crate) fn is_loose(&self) -> bool {
        let ends_in_word = |prefix: &str| prefix.ends_with(|c: char| c.is_alphanumeric());
        matches!(self, Pattern::Prefix(prefix) if ends_in_word(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_star_at_the_end_is_special() {
        for (pattern, name, expected) in [
            ("shop", "shop", true),
            ("shop", "shopping", false),
            ("shop*", "shopping", true),
            ("shop*", "shop", true),
            ("shop*", "Shop", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*b", "a*b", true),
            ("a*b", "axb", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("", "", true),
            ("", "a", false),
            ("/pay/*", "/pay/x", true),
            ("/pay/*", "/payx", false),
        ] {
            assert_eq!(Pattern::parse(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_folder_is_reached_by_what_is_in_it() {
        for (pattern, prefix, expected) in [
            ("/a/b/*", "/a/", true),
            ("/a/b/c", "/a/", true),
            ("/a/*", "/a/b/", true),
            ("/b/*", "/a/", false),
            ("/a/b", "/a/b/", false),
        ] {
            assert_eq!(
                Pattern::parse(pattern).reaches_into(prefix),
                expected,
                "{pattern} {prefix}"
            );
        }
    }
}
