//! Properties that clients set. They are stored unchanged with their file or folder.

use serde::{Deserialize, Serialize};

use super::error::Refusal;
use super::xml;

/// Maximum bytes of the names in one request, including namespaces: a namespace is declared once but counts with each
/// name.
const NAMES_BYTES_MAX: usize = 64 * 1024;

/// The name of a property.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(super) struct Name {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Name {
    pub(super) fn of(node: &roxmltree::Node<'_, '_>) -> Self {
        let namespace = node.tag_name().namespace().unwrap_or_default().into();
        Self { namespace, name: node.tag_name().name().into() }
    }

    pub(super) fn dav(name: &str) -> Self {
        Self { namespace: xml::DAV.into(), name: name.into() }
    }

    pub(super) fn is_dav(&self) -> bool {
        self.namespace == xml::DAV
    }

    /// Renders the name as an empty element.
    pub(super) fn render(&self) -> String {
        xml::empty(&self.namespace, &self.name)
    }
}

/// Counts the property names in a request, and their bytes, down to the limits.
pub(super) struct Names {
    n_max: usize,
    n_left: usize,
    n_bytes_left: usize,
}

impl Names {
    pub(super) fn new(n_max: usize) -> Self {
        Self { n_max, n_left: n_max, n_bytes_left: NAMES_BYTES_MAX }
    }

    /// Returns the name of an element, unless the request has too many.
    pub(super) fn take(&mut self, node: &roxmltree::Node<'_, '_>) -> Result<Name, Refusal> {
        let namespace = node.tag_name().namespace().unwrap_or_default();
        let n_bytes = namespace.len() + node.tag_name().name().len();
        let left = (self.n_left.checked_sub(1), self.n_bytes_left.checked_sub(n_bytes));
        let (Some(n_left), Some(n_bytes_left)) = left else {
            return Err(Refusal::invalid(format!(
                "the body names more than {} properties, or names of more than {NAMES_BYTES_MAX} bytes together",
                self.n_max
            )));
        };
        (self.n_left, self.n_bytes_left) = (n_left, n_bytes_left);
        Ok(Name::of(node))
    }
}

/// A property that a client set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Dead {
    #[serde(flatten)]
    pub(super) name: Name,
    /// The whole element.
    pub(super) xml: String,
}

/// All properties that clients have set for one file or folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Properties(pub(super) Vec<Dead>);

impl Properties {
    /// Parses stored properties. Data in another format was not written by this server: it is neither shown nor an
    /// error.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self(serde_json::from_slice(bytes).unwrap_or_default())
    }

    /// Serializes the properties for storage; empty if there are none.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        if self.0.is_empty() { Vec::new() } else { serde_json::to_vec(&self.0).unwrap_or_default() }
    }

    pub(super) fn set(&mut self, dead: Dead) {
        self.remove(&dead.name);
        self.0.push(dead);
    }

    /// Removes a property. It is not an error if there is no such property.
    pub(super) fn remove(&mut self, name: &Name) {
        self.0.retain(|dead| dead.name != *name);
    }
}
