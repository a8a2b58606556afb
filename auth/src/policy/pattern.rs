//! Patterns in rules and quotas: a name, or a prefix of names.

use crate::Part;

/// A pattern, compared byte by byte. Only a `*` at the end is a wildcard; `\*` at the end is a literal star.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pattern {
    /// Matches this name only.
    Exactly(Box<str>),
    /// Matches every name with this prefix.
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

    /// Returns whether the pattern matches every name.
    pub(crate) fn is_all(&self) -> bool {
        matches!(self, Pattern::Prefix(prefix) if prefix.is_empty())
    }

    /// Returns how many of the names from `first` to `last` the pattern matches.
    pub(crate) fn part_between(&self, first: &str, last: &str) -> Part {
        let (matches_all, from) = match self {
            Pattern::Exactly(exact) => (first == last && **exact == *first, exact),
            // Names that start alike are next to each other.
            Pattern::Prefix(own) => (self.matches(first) && self.matches(last), own),
        };
        let begins_within = *first <= **from && **from <= *last;
        match (matches_all, begins_within || self.matches(first)) {
            (true, _) => Part::All,
            (false, true) => Part::Some,
            (false, false) => Part::None,
        }
    }

    /// Returns whether the pattern can match a name that starts with `prefix`.
    pub(crate) fn reaches_into(&self, prefix: &str) -> bool {
        match self {
            Pattern::Exactly(exact) => exact.starts_with(prefix),
            Pattern::Prefix(own) => own.starts_with(prefix) || prefix.starts_with(&**own),
        }
    }

    /// Returns whether the pattern also matches unrelated names with the same start, such as `shopping` for `shop*`.
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
    fn a_part_of_a_range_is_what_its_names_say() {
        let names = ["", "a", "ab", "ab/", "ab/c", "abc", "b", "ba"];
        for pattern in ["*", "", "a", "a*", "ab*", "ab/*", "abb", "abb*", "b*", "c", "c*"] {
            let pattern = Pattern::parse(pattern);
            for (n, first) in names.iter().enumerate() {
                for (m, last) in names.iter().enumerate().skip(n) {
                    let n_matched = names[n..=m].iter().filter(|n| pattern.matches(n)).count();
                    let part = pattern.part_between(first, last);
                    let is_right = match part {
                        Part::All => n_matched == m - n + 1,
                        Part::Some => true,
                        Part::None => n_matched == 0,
                    };
                    assert!(is_right, "{pattern:?} from {first:?} to {last:?}: {part:?}");
                }
            }
        }
        let part = |pattern, first, last| Pattern::parse(pattern).part_between(first, last);
        assert_eq!((part("a*", "a", "ab"), part("a*", "a", "b")), (Part::All, Part::Some));
        assert_eq!((part("b*", "a", "ab"), part("b", "b", "b")), (Part::None, Part::All));
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
