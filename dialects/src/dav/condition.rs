//! The header `If`: lists of conditions on locks and content. The request proceeds if all conditions of one list hold.
//! Every token in the header counts as shown by the client, whichever list holds.

use super::error::Refusal;

/// Maximum lists in one header, and maximum conditions in one list.
const LISTS_MAX: usize = 64;
/// Maximum conditions in one header.
const TERMS_MAX: usize = 1024;

/// The parsed header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct If {
    pub(super) lists: Vec<List>,
}

/// Conditions that must all hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct List {
    /// The URL to which the conditions apply; `None` for the URL of the request.
    pub(super) about: Option<String>,
    pub(super) terms: Vec<Term>,
}

/// One condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Term {
    pub(super) is_not: bool,
    pub(super) wanted: Wanted,
}

/// The state that a condition requires.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// The URL is locked, and the lock has this token.
    Token(String),
    /// The content has this entity tag.
    Tag(String),
}

impl If {
    /// Returns all tokens in the header.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().flat_map(|list| &list.terms).filter_map(|term| match &term.wanted {
            Wanted::Token(token) => Some(token.as_str()),
            Wanted::Tag(_) => None,
        })
    }

    /// Parses the header.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let mut rest = text.trim_start();
        let mut about: Option<String> = None;
        let (mut lists, mut n_terms) = (Vec::new(), 0);
        let mut is_tagged = false;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('<') {
                let (address, after) = after.split_once('>').ok_or_else(malformed)?;
                is_tagged |= lists.is_empty();
                // The lists must either all name a URL, or none of them.
                if !is_tagged {
                    return Err(malformed());
                }
                about = Some(address.to_owned());
                rest = after.trim_start();
                if !rest.starts_with('(') {
                    return Err(malformed());
                }
            }
            let after = rest.strip_prefix('(').ok_or_else(malformed)?;
            let (terms, after) = terms(after)?;
            n_terms += terms.len();
            if n_terms > TERMS_MAX {
                return Err(Refusal::invalid(format!(
                    "the header If has more than {TERMS_MAX} conditions"
                )));
            }
            lists.push(List { about: about.clone(), terms });
            if lists.len() > LISTS_MAX {
                return Err(Refusal::invalid(format!(
                    "the header If has more than {LISTS_MAX} lists"
                )));
            }
            rest = after.trim_start();
        }
        if lists.is_empty() { Err(malformed()) } else { Ok(Self { lists }) }
    }
}

fn malformed() -> Refusal {
    Refusal::invalid("the header If is malformed")
}

/// Parses conditions up to the closing parenthesis. Returns them with the rest of the text.
fn terms(text: &str) -> Result<(Vec<Term>, &str), Refusal> {
    let mut rest = text.trim_start();
    let mut terms = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(')') {
            return if terms.is_empty() { Err(malformed()) } else { Ok((terms, after)) };
        }
        let not = rest.get(..3).filter(|word| word.eq_ignore_ascii_case("not"));
        if not.is_some() {
            rest = rest[3..].trim_start();
        }
        let (wanted, after) = if let Some(after) = rest.strip_prefix('<') {
            let (token, after) = after.split_once('>').ok_or_else(malformed)?;
            (Wanted::Token(token.into()), after)
        } else if let Some(after) = rest.strip_prefix('[') {
            let (tag, after) = after.split_once(']').ok_or_else(malformed)?;
            let tag = tag.trim();
            (Wanted::Tag(tag.strip_prefix("W/").unwrap_or(tag).into()), after)
        } else {
            return Err(malformed());
        };
        terms.push(Term { is_not: not.is_some(), wanted });
        if terms.len() > LISTS_MAX {
            return Err(Refusal::invalid(format!(
                "If has a list of more than {LISTS_MAX} conditions"
            )));
        }
        rest = after.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `about: not token tag; ...`
    fn told(text: &str) -> Option<String> {
        let lists = If::parse(text).ok()?.lists.into_iter().map(|list| {
            let terms = list.terms.into_iter().map(|term| {
                let not = if term.is_not { "!" } else { "" };
                match term.wanted {
                    Wanted::Token(token) => format!("{not}{token}"),
                    Wanted::Tag(tag) => format!("{not}[{tag}]"),
                }
            });
            let terms = terms.collect::<Vec<_>>().join(" ");
            format!("{}({terms})", list.about.unwrap_or_default())
        });
        Some(lists.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_form_that_clients_send_is_read() {
        for (text, expected) in [
            ("(<T>)", "(T)"),
            ("<http://h/dav/a/> (<T>)", "http://h/dav/a/(T)"),
            ("(<T> [\"e\"])", "(T [\"e\"])"),
            ("(<T>) (Not <DAV:no-lock>)", "(T) (!DAV:no-lock)"),
            ("(<T> [W/\"e\"])(not <DAV:no-lock> [\"e\"])", "(T [\"e\"]) (!DAV:no-lock [\"e\"])"),
            ("<a> (<T>) (<U>) <b> ([\"e\"])", "a(T) a(U) b([\"e\"])"),
            ("  ( Not  <T> ) ", "(!T)"),
        ] {
            assert_eq!(told(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let long = "(<T>)".repeat(65);
        let wide = format!("({})", "<T>".repeat(65));
        for text in [
            "",
            " ",
            "(",
            "()",
            "(<T>",
            "(<T)",
            "<a>",
            "<a> <b> (<T>)",
            "(<T>) <a> (<U>)",
            "T",
            "(T)",
            "([e)",
            "(<T>) x",
            "(Not)",
            "(Not Not <T>)",
            "(é)",
            &long,
            &wide,
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
