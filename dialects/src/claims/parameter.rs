//! The parameters of a request. Each is checked separately, so that the response lists all errors at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use leasehold_core::{Limits, Span};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::Refusal;
use crate::metadata;

/// Metadata is nested in a claim, which is nested in a list. Its depth is checked inside this nesting, so that the
/// whole response stays within the depth that JSON parsers commonly allow.
const NESTING: (&str, &str) = ("[[[", "]]]");

/// The members of a JSON object, and the errors found in them so far.
pub(super) struct Parameters {
    given: BTreeMap<String, Box<RawValue>>,
    faults: BTreeMap<String, String>,
}

/// The content of a `POST` request.
pub(super) struct NewClaim {
    pub(super) resource: String,
    pub(super) timeout: Span,
    pub(super) metadata: Option<Arc<[u8]>>,
}

/// The content of a `PATCH` or `PUT` request. A request makes one change only, because two changes could not be applied
/// atomically.
pub(super) enum Update {
    Activate,
    Release,
    /// Revoke the claim. The word is the recorded reason and becomes the status.
    Revoke(&'static str),
    Ttl(Span),
    Timeout(Span),
}

impl Update {
    /// Returns the name of the operation in the audit files.
    pub(super) fn operation(&self) -> &'static str {
        match self {
            Update::Activate => "confirm",
            Update::Release => "release",
            Update::Revoke(_) => "revoke",
            Update::Ttl(_) | Update::Timeout(_) => "renew",
        }
    }
}

impl Parameters {
    pub(super) fn new_claim(mut self, limits: &Limits) -> Result<NewClaim, Refusal> {
        let resource = self.resource(limits.name_bytes_max);
        let timeout = self.take_either("timeout", "ttl");
        if timeout.is_none() {
            self.fault("timeout", "No timeout specified");
        }
        let timeout = timeout.and_then(|(name, raw)| self.seconds(name, &raw, limits.ttl_max));
        let metadata = self.take_either("metadata", "user_data");
        let metadata = metadata.and_then(|(name, raw)| self.metadata(name, &raw, limits));
        self.finish()?;
        let missing = || Refusal::invalid("A parameter is missing");
        let (resource, timeout) = (resource.ok_or_else(missing)?, timeout.ok_or_else(missing)?);
        Ok(NewClaim { resource, timeout, metadata })
    }

    pub(super) fn update(mut self, limits: &Limits) -> Result<Update, Refusal> {
        let names = ["status", "ttl", "timeout"];
        let given = names.into_iter().filter(|name| self.given.contains_key(*name));
        let given: Vec<_> = given.collect();
        if given.len() > 1 {
            given.iter().for_each(|name| self.fault(name, "Goes alone: one change per request"));
        }
        let mut update = None;
        for name in given {
            let Some(raw) = self.given.remove(name) else { continue };
            update = match name {
                "status" => self.status(&raw),
                "ttl" => self.seconds(name, &raw, limits.ttl_max).map(Update::Ttl),
                _ => self.seconds(name, &raw, limits.ttl_max).map(Update::Timeout),
            };
        }
        self.finish()?;
        update.ok_or_else(|| Refusal::invalid("Nothing to change: give status, ttl or timeout"))
    }

    fn resource(&mut self, bytes_max: usize) -> Option<String> {
        let Some(raw) = self.given.remove("resource") else {
            self.fault("resource", "No resource specified");
            return None;
        };
        match serde_json::from_str::<String>(raw.get()) {
            Ok(text) if (1..=bytes_max).contains(&text.len()) => return Some(text),
            Ok(_) => self.fault("resource", format!("Must be 1 to {bytes_max} bytes long")),
            Err(_) => self.fault("resource", "Must be a string"),
        }
        None
    }

    fn seconds(&mut self, name: &str, raw: &RawValue, max: Span) -> Option<Span> {
        let parsed = serde_json::from_str(raw.get()).ok();
        let span = parsed.ok_or_else(not_seconds).and_then(|seconds| to_span(seconds, max));
        span.map_err(|why| self.fault(name, why)).ok()
    }

    fn status(&mut self, raw: &RawValue) -> Option<Update> {
        let word = serde_json::from_str::<String>(raw.get()).unwrap_or_default();
        Some(match word.as_str() {
            "active" => Update::Activate,
            "released" => Update::Release,
            "revoked" => Update::Revoke("revoked"),
            "aborted" => Update::Revoke("aborted"),
            "withdrawn" => Update::Revoke("withdrawn"),
            _ => {
                let why = "Must be active, released, revoked, aborted or withdrawn";
                self.fault("status", why);
                return None;
            }
        })
    }

    /// Returns the metadata exactly as the client wrote it, including the digits of numbers. `null` means no metadata.
    fn metadata(&mut self, name: &str, raw: &RawValue, limits: &Limits) -> Option<Arc<[u8]>> {
        let Limits { metadata_bytes_max: bytes_max, metadata_depth_max: depth_max, .. } = *limits;
        let text = raw.get();
        if text.len() > bytes_max {
            self.fault(name, format!("Must be at most {bytes_max} bytes long"));
        } else if metadata::depth(text.as_bytes()) > depth_max {
            self.fault(name, metadata::too_deep(depth_max));
        } else if let Err(error) = serde_json::from_str::<Value>(&nested(text)) {
            self.fault(name, format!("Cannot be read back: {error}"));
        }
        (text != "null").then(|| text.as_bytes().into())
    }

    /// Removes a parameter that has two names. A request that uses both names is an error.
    fn take_either(
        &mut self,
        name: &'static str,
        other: &'static str,
    ) -> Option<(&'static str, Box<RawValue>)> {
        let (first, second) = (self.given.remove(name), self.given.remove(other));
        if first.is_some() && second.is_some() {
            self.fault(other, format!("Is another name of {name}: give one of them"));
        }
        first.map(|raw| (name, raw)).or_else(|| second.map(|raw| (other, raw)))
    }

    fn fault(&mut self, name: &str, why: impl Into<String>) {
        self.faults.entry(name.into()).or_insert_with(|| why.into());
    }

    /// Reports all members that no check has removed as unknown, and returns all errors.
    fn finish(mut self) -> Result<(), Refusal> {
        for name in std::mem::take(&mut self.given).into_keys() {
            self.fault(&name, "Unknown parameter");
        }
        if self.faults.is_empty() { Ok(()) } else { Err(Refusal::parameters(self.faults)) }
    }
}

fn nested(text: &str) -> String {
    let (before, after) = NESTING;
    format!("{before}{text}{after}")
}

fn not_seconds() -> String {
    "Must be a number of seconds, 0 or more".into()
}

/// Converts seconds to the core's unit.
pub(super) fn to_span(seconds: f64, max: Span) -> Result<Span, String> {
    if !seconds.is_finite() || seconds < 0.0 {
        return Err(not_seconds());
    }
    // Checked before rounding, so that a value slightly above the maximum is rejected.
    let seconds_max = super::wire::seconds(max);
    if seconds > seconds_max {
        return Err(format!("Must be at most {seconds_max} seconds"));
    }
    Ok(Span::from_nanos((seconds * 1e9).round() as u64).min(max))
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Parameters;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parameters, A::Error> {
        let mut parameters = Parameters { given: BTreeMap::new(), faults: BTreeMap::new() };
        while let Some(name) = map.next_key::<String>()? {
            let raw = map.next_value()?;
            if parameters.given.contains_key(&name) {
                parameters.fault(&name, "Given twice");
            }
            parameters.given.insert(name, raw);
        }
        Ok(parameters)
    }
}
