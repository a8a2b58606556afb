//! The operations of one dialect, and how they are added to the document.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::operation::Operation;
use super::schema::Schemas;

/// The chapter of one dialect.
pub(crate) struct Chapter {
    name: &'static str,
    about: &'static str,
    operations: Vec<Operation>,
    bounds: Vec<(&'static str, &'static str, Value)>,
    rules: Vec<(&'static str, Value)>,
}

impl Chapter {
    pub(crate) fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, operations: Vec::new(), bounds: Vec::new(), rules: Vec::new() }
    }

    /// Adds operations.
    pub(crate) fn with(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations.extend(operations);
        self
    }

    /// Adds the responses for unauthenticated and unauthorized callers to all operations so far. Errors have this
    /// shape.
    pub(crate) fn guarded<T: JsonSchema>(mut self) -> Self {
        self.operations = self.operations.into_iter().map(Operation::guarded::<T>).collect();
        self
    }

    /// Adds the responses for unauthenticated and unauthorized callers, for a dialect whose JSON has another media
    /// type.
    pub(crate) fn guarded_as<T: JsonSchema>(self, kind: &'static str) -> Self {
        let mut guarded = self.guarded::<T>();
        let operations = guarded.operations.into_iter();
        guarded.operations = operations.map(|operation| operation.spoken_as(kind)).collect();
        guarded
    }

    /// Limits a member of a request's shape to the configured bounds.
    pub(crate) fn bound(mut self, shape: &'static str, member: &'static str, to: Value) -> Self {
        self.bounds.push((shape, member, to));
        self
    }

    /// Adds a rule about how members of a request's shape depend on each other.
    pub(crate) fn rule(mut self, shape: &'static str, rule: Value) -> Self {
        self.rules.push((shape, rule));
        self
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn about(&self) -> &'static str {
        self.about
    }

    /// Adds the chapter to the document. Shapes are prefixed with the chapter's name, because two dialects can use the
    /// same name for a shape.
    pub(super) fn write(self, paths: &mut Map<String, Value>, shapes: &mut Map<String, Value>) {
        let mut schemas = Schemas::default();
        for operation in self.operations {
            let (path, method) = (operation.path().to_owned(), operation.method());
            let mut written = operation.write(self.name, &mut schemas);
            point_into(self.name, &mut written);
            let methods = paths.entry(path.clone()).or_insert_with(|| json!({}));
            let before = methods.as_object_mut().and_then(|all| all.insert(method.into(), written));
            assert!(before.is_none(), "the contract has {method} {path} twice");
        }
        for (shape, member, to) in self.bounds {
            schemas.bound(shape, member, to);
        }
        for (shape, rule) in self.rules {
            schemas.rule(shape, rule);
        }
        for (name, mut shape) in schemas.finish() {
            point_into(self.name, &mut shape);
            shapes.insert(format!("{}.{name}", self.name), shape);
        }
    }
}

/// Prefixes every reference to a shape with the chapter's name.
fn point_into(chapter: &str, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let shape = member.as_str().and_then(|to| to.strip_prefix("#/components/schemas/"));
                match shape.filter(|_| name == "$ref") {
                    Some(shape) => {
                        *member = format!("#/components/schemas/{chapter}.{shape}").into()
                    }
                    None => point_into(chapter, member),
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(|member| point_into(chapter, member)),
        _ => {}
    }
}
