//! JSON schemas, derived from the types of the API.

use std::ops::RangeInclusive;

use leasehold_core::Span;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// The source of a schema.
#[derive(Clone)]
pub(super) enum Shape {
    /// A type of the API.
    Of(fn(&mut SchemaGenerator) -> Schema),
    /// A schema that no type describes.
    Given(Value),
}

impl Shape {
    pub(super) fn of<T: JsonSchema>() -> Self {
        Self::Of(|generator| generator.subschema_for::<T>())
    }

    /// Describes a stream of events. OpenAPI 3.1 cannot describe the content of a stream, so this uses a member that
    /// begins with `x-`, which tools ignore.
    pub(super) fn events<T: JsonSchema, U: JsonSchema>() -> Self {
        Self::Of(|generator| {
            let data = [generator.subschema_for::<T>(), generator.subschema_for::<U>()];
            json_schema!({"type": "string", "x-data": {"anyOf": data}})
        })
    }
}

/// The schemas of one chapter. Requests and responses need separate ones: an optional member of a request can be one
/// that is always present in a response.
pub(super) struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12();
        let settings = settings.with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            requests: settings.clone().for_deserialize().into_generator(),
            answers: settings.for_serialize().into_generator(),
        }
    }
}

impl Schemas {
    pub(super) fn request(&mut self, shape: &Shape) -> Value {
        resolve(&mut self.requests, shape)
    }

    pub(super) fn answer(&mut self, shape: &Shape) -> Value {
        resolve(&mut self.answers, shape)
    }

    /// Returns the members of a request's schema, each with whether it is required.
    pub(super) fn members(&self, shape: &Shape) -> Vec<(String, Value, bool)> {
        // Inlined, so that the document does not keep the shape as a schema: its members become parameters.
        let mut inlined = self.requests.settings().clone();
        inlined.inline_subschemas = true;
        let shape = resolve(&mut inlined.into_generator(), shape);
        let is_required = |name: &str| {
            let required = shape["required"].as_array().into_iter().flatten();
            required.into_iter().any(|required| required == name)
        };
        let members = shape["properties"].as_object().into_iter().flatten();
        members.map(|(name, shape)| (name.clone(), shape.clone(), is_required(name))).collect()
    }

    /// Limits a member of a request's schema.
    pub(super) fn bound(&mut self, shape: &str, member: &str, to: Value) {
        let found = self.requests.definitions_mut().get_mut(shape);
        let found = found.and_then(|shape| shape["properties"].get_mut(member)?.as_object_mut());
        let found = found
            .unwrap_or_else(|| panic!("the contract bounds {shape}.{member}, which is not there"));
        found.extend(to.as_object().cloned().unwrap_or_default());
    }

    /// Adds a rule to a request's schema as a whole.
    pub(super) fn rule(&mut self, shape: &str, rule: Value) {
        let found = self.requests.definitions_mut().get_mut(shape);
        let found = found
            .unwrap_or_else(|| panic!("the contract has a rule for {shape}, which is not there"));
        match found["allOf"].as_array_mut() {
            Some(rules) => rules.push(rule),
            None => found["allOf"] = json!([rule]),
        }
    }

    /// Returns all schemas that were referenced.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut shapes = self.requests.take_definitions(true);
        shapes.values_mut().for_each(name_the_largest);
        for (name, shape) in self.answers.take_definitions(true) {
            let before = shapes.insert(name.clone(), shape);
            assert!(before.is_none(), "{name} is both a request's and an answer's");
        }
        shapes
    }
}

fn resolve(generator: &mut SchemaGenerator, shape: &Shape) -> Value {
    match shape {
        Shape::Of(make) => make(generator).to_value(),
        Shape::Given(value) => value.clone(),
    }
}

/// Adds the maximum of the integer type to numbers. The server rejects larger ones.
fn name_the_largest(shape: &mut Value) {
    let largest = match shape.get("format").and_then(Value::as_str) {
        Some("uint64") => Some(u64::MAX),
        Some("uint32") => Some(u64::from(u32::MAX)),
        _ => None,
    };
    match shape {
        Value::Object(members) => {
            if let Some(largest) = largest {
                members.entry("maximum").or_insert(largest.into());
            }
            members.values_mut().for_each(name_the_largest);
        }
        Value::Array(members) => members.iter_mut().for_each(name_the_largest),
        _ => {}
    }
}

/// Returns the schema of a text of this many bytes. A schema can only limit characters, and a text never has more
/// characters than bytes.
pub(crate) fn text(bytes: RangeInclusive<usize>) -> Value {
    json!({"type": "string", "minLength": usize::from(*bytes.start() > 0), "maxLength": bytes.end()})
}

/// Returns the schema of a list cursor.
pub(crate) fn cursor() -> Value {
    json!({"type": "string", "pattern": "^([0-9a-f]{2})+$"})
}

/// Returns the schema of an integer in these bounds.
pub(crate) fn whole(bounds: RangeInclusive<u64>) -> Value {
    json!({"type": "integer", "minimum": bounds.start(), "maximum": bounds.end()})
}

/// Returns the schema of a number of seconds up to this maximum.
pub(crate) fn seconds(max: Span) -> Value {
    json!({"type": "number", "minimum": 0, "maximum": max.as_nanos() as f64 / 1e9})
}

/// Returns the bounds of a number of milliseconds.
pub(crate) fn millis(min: u64, max: Span) -> Value {
    json!({"minimum": min, "maximum": max.as_millis()})
}
