//! Parses and renders the XML of WebDAV.
//!
//! Elements are identified by namespace, never by prefix. Document types are rejected, so only the five predefined
//! entities exist. Nesting is limited, because the code walks documents recursively.

use roxmltree::{Document, Node, ParsingOptions};

use super::error::Refusal;
use super::scan;

/// The namespace of WebDAV.
pub(super) const DAV: &str = "DAV:";
/// Maximum number of elements, texts and comments in one document.
const NODES_MAX: u32 = 20_000;
const XML: &str = "http://www.w3.org/XML/1998/namespace";

/// Parses a document. Fails with a refusal that describes the error.
pub(super) fn parse(text: &[u8], depth_max: usize) -> Result<Document<'_>, Refusal> {
    let text = std::str::from_utf8(text);
    let text = text.map_err(|_| Refusal::invalid("the body is not XML in UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}');
    scan::check(text, depth_max).map_err(Refusal::invalid)?;
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options);
    let document = document.map_err(|why| match why {
        roxmltree::Error::DtdDetected => {
            Refusal::invalid("the body has a document type, which is refused")
        }
        why => Refusal::invalid(format!("the body is not XML: {why}")),
    })?;
    // The parser accepts a prefix that is bound to an empty namespace, which XML does not allow.
    let is_unbound = |node: Node<'_, '_>| {
        node.namespaces().any(|bound| bound.name().is_some() && bound.uri().is_empty())
    };
    if document.descendants().any(is_unbound) {
        return Err(Refusal::invalid("the body is not XML: a prefix is bound to no namespace"));
    }
    Ok(document)
}

/// Returns whether the node is the WebDAV element with this name.
pub(super) fn is(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().namespace() == Some(DAV) && node.tag_name().name() == name
}

/// Returns the first child that is the WebDAV element with this name.
pub(super) fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| is(child, name))
}

/// Returns all text in the node, at any depth.
pub(super) fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// Returns an element as text that means the same in any document; `None` if it takes more than this many bytes. The
/// text repeats a namespace with each element and attribute in it, so it can be far longer than the input.
pub(super) fn render(node: Node<'_, '_>, bytes_max: usize) -> Option<String> {
    let mut out = String::new();
    // An element inherits the language from the elements around it.
    let said = node.ancestors().find_map(|outer| outer.attribute((XML, "lang")));
    let language = said.filter(|_| node.attribute((XML, "lang")).is_none());
    write(node, language, &mut out, bytes_max);
    (out.len() <= bytes_max).then_some(out)
}

/// Appends a node to `out`. The output is never nested deeper than the input. Past the limit, nothing is appended.
fn write(node: Node<'_, '_>, language: Option<&str>, out: &mut String, bytes_max: usize) {
    if out.len() > bytes_max {
        return;
    }
    if let Some(text) = node.text().filter(|_| node.is_text()) {
        out.push_str(&escape(text));
    }
    if !node.is_element() {
        return;
    }
    let (open, close) = tag(node.tag_name().namespace(), node.tag_name().name());
    out.push('<');
    out.push_str(&open);
    if let Some(language) = language {
        out.push_str(&format!(" xml:lang=\"{}\"", escape(language)));
    }
    for (n, attribute) in node.attributes().enumerate() {
        let (name, value) = (attribute.name(), escape(attribute.value()));
        out.push_str(&match attribute.namespace() {
            None => format!(" {name}=\"{value}\""),
            Some(XML) => format!(" xml:{name}=\"{value}\""),
            Some(uri) => format!(" xmlns:a{n}=\"{}\" a{n}:{name}=\"{value}\"", escape(uri)),
        });
    }
    if !node.has_children() {
        out.push_str("/>");
        return;
    }
    out.push('>');
    node.children().for_each(|child| write(child, None, out, bytes_max));
    out.push_str(&format!("</{close}>"));
}

/// Returns the content of the start tag and of the end tag. Responses of this server have no default namespace, so an
/// element without a namespace needs no declaration.
fn tag(namespace: Option<&str>, name: &str) -> (String, String) {
    match namespace {
        None | Some("") => (name.into(), name.into()),
        Some(DAV) => (format!("D:{name} xmlns:D=\"DAV:\""), format!("D:{name}")),
        Some(uri) => (format!("x:{name} xmlns:x=\"{}\"", escape(uri)), format!("x:{name}")),
    }
}

/// Renders an empty element.
pub(super) fn empty(namespace: &str, name: &str) -> String {
    format!("<{}/>", tag(Some(namespace), name).0)
}

/// Escapes text for element content and attribute values.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\r' | '\t' => escaped.push_str(&format!("&#{};", u32::from(c))),
            // XML cannot represent these characters.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_means_the_same_elsewhere() {
        for (sent, kept) in [
            ("<a/>", "<a/>"),
            ("<a xmlns='u:x'>b&amp;c</a>", "<x:a xmlns:x=\"u:x\">b&amp;c</x:a>"),
            (
                "<p:a xmlns:p='u:x' q='1' p:r='&lt;'><b/></p:a>",
                "<x:a xmlns:x=\"u:x\" q=\"1\" xmlns:a1=\"u:x\" a1:r=\"&lt;\"><b/></x:a>",
            ),
            (
                "<o xmlns='DAV:' xml:lang='de'>1\n2</o>",
                "<D:o xmlns:D=\"DAV:\" xml:lang=\"de\">1&#10;2</D:o>",
            ),
        ] {
            let document = parse(sent.as_bytes(), 64).expect("XML");
            let once = render(document.root_element(), 1000).expect("short");
            assert_eq!(once, kept);
            let again = parse(once.as_bytes(), 64).expect("XML");
            assert_eq!(render(again.root_element(), 1000).as_deref(), Some(kept), "rendered again");
        }
    }

    #[test]
    fn bombs_do_not_go_off() {
        let deep = "<a>".repeat(65) + &"</a>".repeat(65);
        let entities = "<!DOCTYPE a [<!ENTITY x 'xxxx'><!ENTITY y '&x;&x;'>]><a>&y;</a>";
        let outside = "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>";
        let wide = format!("<a>{}</a>", "<b/>".repeat(30_000));
        let endless = "<a>".repeat(300_000);
        for bomb in [
            &*deep,
            entities,
            outside,
            &wide,
            &endless,
            "",
            "<a>",
            "<a/><b/>",
            "<p:a/>",
            "a",
            "<a xmlns:p=''/>",
        ] {
            assert!(parse(bomb.as_bytes(), 64).is_err(), "{}", &bomb[..bomb.len().min(80)]);
        }
        assert!(parse(b"<a>\xff</a>", 64).is_err());
        let just = "<a>".repeat(64) + &"</a>".repeat(64);
        assert!(parse(just.as_bytes(), 64).is_ok());
    }
}
