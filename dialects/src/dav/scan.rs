//! Bounds the work of the XML parser, before it runs.
//!
//! The parser compares each namespace declaration with all declarations in force, and each attribute with all others of
//! its element. Both are quadratic. Comparing two attributes compares their namespaces byte by byte. So one linear pass
//! over the bytes counts them first. Where a document is malformed, the pass ends: the parser stops at the same place
//! and reports the error.

/// Maximum namespace declarations in force at one place: those of an element and of all elements around it.
pub(super) const IN_FORCE_MAX: usize = 32;
/// Maximum namespace declarations in one document.
pub(super) const DECLARATIONS_MAX: usize = 1000;
/// Maximum bytes of a namespace, as written.
pub(super) const NAMESPACE_BYTES_MAX: usize = 1024;
/// Maximum attributes of one element, including namespace declarations.
pub(super) const ATTRIBUTES_MAX: usize = 32;

/// Checks that the parser can read a document in linear time.
pub(super) fn check(text: &str, depth_max: usize) -> Result<(), String> {
    let mut counts = Declarations { depth_max, in_force: vec![0], n_declared: 0 };
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
        rest = &rest[at..];
        let n = match rest {
            [b'<', b'!', b'-', b'-', ..] => end(rest, 4, b"-->"),
            _ if rest.starts_with(b"<![CDATA[") => end(rest, 9, b"]]>"),
            // A document type: the parser rejects it at its first byte.
            [b'<', b'!', ..] => return Ok(()),
            [b'<', b'?', ..] => end(rest, 2, b"?>"),
            [b'<', b'/', ..] => {
                counts.close();
                end(rest, 2, b">")
            }
            _ => match Tag::read(rest) {
                Some(tag) => {
                    counts.open(&tag)?;
                    Some(tag.n_bytes)
                }
                None => None,
            },
        };
        let Some(n) = n else { return Ok(()) };
        rest = &rest[n..];
    }
    Ok(())
}

/// Searches for `end` from a position on, and returns the number of bytes up to and including it.
fn end(text: &[u8], from: usize, end: &[u8]) -> Option<usize> {
    let rest = text.get(from..)?;
    let at = rest.windows(end.len()).position(|window| window == end)?;
    Some(from + at + end.len())
}

struct Declarations {
    depth_max: usize,
    /// The declarations in force at the top, and in each open element.
    in_force: Vec<usize>,
    n_declared: usize,
}

impl Declarations {
    fn open(&mut self, tag: &Tag) -> Result<(), String> {
        if tag.n_attributes > ATTRIBUTES_MAX {
            return Err(format!(
                "an element of the body has more than {ATTRIBUTES_MAX} attributes"
            ));
        }
        if tag.has_long_namespace {
            return Err(format!(
                "a namespace of the body is longer than {NAMESPACE_BYTES_MAX} bytes"
            ));
        }
        self.n_declared += tag.n_declared;
        if self.n_declared > DECLARATIONS_MAX {
            return Err(format!("the body declares more than {DECLARATIONS_MAX} namespaces"));
        }
        let in_force = self.in_force.last().copied().unwrap_or(0) + tag.n_declared;
        if in_force > IN_FORCE_MAX {
            return Err(format!(
                "the body has more than {IN_FORCE_MAX} namespace declarations in force at one place"
            ));
        }
        if self.in_force.len() > self.depth_max {
            let depth_max = self.depth_max;
            return Err(format!("the body is nested deeper than {depth_max} (metadata-depth-max)"));
        }
        if !tag.is_empty {
            self.in_force.push(in_force);
        }
        Ok(())
    }

    fn close(&mut self) {
        if self.in_force.len() > 1 {
            self.in_force.pop();
        }
    }
}

/// A start tag, or the tag of an empty element.
struct Tag {
    n_bytes: usize,
    n_attributes: usize,
    n_declared: usize,
    has_long_namespace: bool,
    is_empty: bool,
}

impl Tag {
    /// Reads the tag at the start of a text; `None` if it is malformed.
    fn read(text: &[u8]) -> Option<Self> {
        let mut tag = Self {
            n_bytes: 0,
            n_attributes: 0,
            n_declared: 0,
            has_long_namespace: false,
            is_empty: false,
        };
        // The start of the next attribute's name, or of white space before it.
        let (mut name, mut at) = (1, 1);
        let mut is_declared = false;
        loop {
            match *text.get(at)? {
                b'>' => {
                    tag.is_empty = text[at - 1] == b'/';
                    tag.n_bytes = at + 1;
                    return Some(tag);
                }
                b'<' => return None,
                b'=' => {
                    tag.n_attributes += 1;
                    // Every name that contains `xmlns` counts: too many rather than too few.
                    is_declared = text[name..at].windows(5).any(|word| word == b"xmlns");
                    tag.n_declared += usize::from(is_declared);
                }
                quote @ (b'"' | b'\'') => {
                    let value = text.get(at + 1..)?;
                    let stop = value.iter().position(|byte| *byte == quote || *byte == b'<')?;
                    if value[stop] == b'<' {
                        return None;
                    }
                    tag.has_long_namespace |= is_declared && stop > NAMESPACE_BYTES_MAX;
                    at += stop + 1;
                    name = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_attributes_and_depth_are_counted_where_the_parser_reads_them() {
        let declared =
            |n: usize| -> String { (0..n).map(|n| format!(" xmlns:n{n}='u'")).collect() };
        let attributes =
            |n: usize| -> String { (0..n).map(|n| format!("\ta{n} = \"=>\"")).collect() };
        let nested = |outer: usize, inner: usize| {
            format!("<a{}><b{}/></a>", declared(outer), declared(inner))
        };
        let each = |n: usize| format!("<a>{}</a>", "<b xmlns='u'/>".repeat(n));
        let deep = |n: usize| "<a>".repeat(n) + &"</a>".repeat(n);
        for (text, is_good) in [
            (nested(IN_FORCE_MAX, 0), true),
            (nested(IN_FORCE_MAX - 1, 2), false),
            (format!("<a><b{}/><b{}/></a>", declared(20), declared(20)), true),
            (format!("<a{}/>", attributes(ATTRIBUTES_MAX)), true),
            (format!("<a{}/>", attributes(ATTRIBUTES_MAX + 1)), false),
            (each(DECLARATIONS_MAX), true),
            (each(DECLARATIONS_MAX + 1), false),
            (deep(64), true),
            (deep(65), false),
            (deep(65) + &deep(65), false),
            ("<a/>".repeat(100), true),
            (format!("<a xmlns='{}'/>", "u".repeat(NAMESPACE_BYTES_MAX)), true),
            (format!("<a><b xmlns:n = \"{}\"/></a>", "u".repeat(NAMESPACE_BYTES_MAX + 1)), false),
            (format!("<a xmlns='u' b='{}'/>", "u".repeat(NAMESPACE_BYTES_MAX + 1)), true),
            // Quoted and commented text does not count.
            (format!("<a b='{}'/>", "xmlns=\">".repeat(99)), true),
            (format!("<!-- {} --><a/>", deep(99)), true),
            (format!("<a><![CDATA[{}]]></a>", deep(99)), true),
            (format!("<?x {} ?><a/>", declared(99)), true),
            // The parser refuses malformed documents.
            ("<a".into(), true),
            ("<a b='".into(), true),
            ("<!--".into(), true),
            (format!("<!DOCTYPE a><a{}/>", declared(99)), true),
            (String::new(), true),
        ] {
            let checked = check(&text, 64);
            assert_eq!(checked.is_ok(), is_good, "{}: {checked:?}", &text[..text.len().min(80)]);
        }
    }
}
