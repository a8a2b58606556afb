//! Filters for lists of claims.

use std::collections::BTreeSet;

use leasehold_core::Timestamp;

use super::date;
use super::error::Refusal;
use super::wire::{Claim, STATUSES};
use crate::app::App;

const LIMIT_DEFAULT: usize = 100;
pub(super) const LIMIT_MAX: usize = 1000;

/// The filter parameters of a request. They are compared with the values in responses, so that a client can filter by
/// any value it has seen.
#[derive(Default, Debug)]
pub(super) struct Filter {
    resource: Option<String>,
    status: Option<String>,
    ttl: Range,
    created: Range,
    active_duration: Range,
    waiting_duration: Range,
    pub(super) limit: usize,
    pub(super) offset: usize,
}

/// Bounds in seconds. A missing value is outside every bound.
#[derive(Default, Debug)]
struct Range {
    exact: Option<f64>,
    minimum: Option<f64>,
    maximum: Option<f64>,
}

impl Range {
    /// Returns `true` if no bound is set, or if `value` is within all bounds.
    fn admits(&self, value: Option<f64>) -> bool {
        let holds = |bound: Option<f64>, holds: fn(f64, f64) -> bool| {
            bound.is_none_or(|bound| value.is_some_and(|value| holds(value, bound)))
        };
        holds(self.exact, |value, bound| value == bound)
            && holds(self.minimum, |value, bound| value >= bound)
            && holds(self.maximum, |value, bound| value <= bound)
    }
}

impl Filter {
    pub(super) fn parse(pairs: &[(String, String)]) -> Result<Self, Refusal> {
        let mut filter = Self { limit: LIMIT_DEFAULT, ..Self::default() };
        let mut seen = BTreeSet::new();
        let mut faults = std::collections::BTreeMap::new();
        for (name, value) in pairs {
            let fault = match seen.insert(name) {
                true => filter.set(name, value).err(),
                false => Some("Given twice".into()),
            };
            faults.extend(fault.map(|why| (name.clone(), why)));
        }
        if faults.is_empty() { Ok(filter) } else { Err(Refusal::parameters(faults)) }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "resource" if value.is_empty() => return Err("Must not be empty".into()),
            "resource" => self.resource = Some(value.into()),
            "status" if !STATUSES.contains(&value) => {
                return Err(format!("Must be one of {}", STATUSES.join(", ")));
            }
            "status" => self.status = Some(value.into()),
            "limit" => {
                let limit = whole(value).filter(|limit| (1..=LIMIT_MAX).contains(limit));
                self.limit = limit.ok_or_else(|| format!("Must be from 1 to {LIMIT_MAX}"))?;
            }
            "offset" => {
                self.offset = whole(value).ok_or("Must be a whole number, 0 or more")?;
            }
            _ => *self.bound(name).ok_or("Unknown parameter")? = Some(bound_of(name, value)?),
        }
        Ok(())
    }

    /// Returns the field for the value of `ttl`, `minimum_ttl` and so on.
    fn bound(&mut self, name: &str) -> Option<&mut Option<f64>> {
        let (kind, field) = match name.split_once('_') {
            Some((kind @ ("minimum" | "maximum"), field)) => (kind, field),
            _ => ("exact", name),
        };
        let range = match field {
            "ttl" => &mut self.ttl,
            "created" => &mut self.created,
            // Durations have no exact filter: while the clock runs, a claim has an exact duration only for an instant.
            "active_duration" if kind != "exact" => &mut self.active_duration,
            "waiting_duration" if kind != "exact" => &mut self.waiting_duration,
            _ => return None,
        };
        Some(match kind {
            "minimum" => &mut range.minimum,
            "maximum" => &mut range.maximum,
            _ => &mut range.exact,
        })
    }

    pub(super) fn admits(&self, app: &App, claim: &Claim, now: Timestamp) -> bool {
        self.resource.as_deref().is_none_or(|resource| resource == &*claim.lock.name)
            && self.status.as_deref().is_none_or(|status| status == claim.status())
            && self.ttl.admits(claim.ttl(now))
            && self.created.admits(Some(claim.created_s(app) as f64))
            && self.active_duration.admits(claim.active_duration(now))
            && self.waiting_duration.admits(claim.waiting_duration(now))
    }
}

fn bound_of(name: &str, value: &str) -> Result<f64, String> {
    if name.ends_with("created") {
        let date = date::parse(value);
        return date.ok_or_else(|| "Must be an RFC 2822 or ISO 8601 date".into());
    }
    // A negative bound is valid, although no value is below it.
    let seconds = value.parse().ok().filter(|seconds: &f64| seconds.is_finite());
    seconds.ok_or_else(|| "Must be a number of seconds".into())
}

fn whole(text: &str) -> Option<usize> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}
