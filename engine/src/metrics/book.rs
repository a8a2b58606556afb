//! The registry, and what is in it: an empty family is not written, but has a name all the same.

use std::fmt::Debug;

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// A registry that knows the names in it.
#[derive(Default)]
pub struct Book {
    registry: Registry,
    names: Vec<String>,
}

impl Book {
    /// Adds a metric. The name of a counter goes without `_total`, that of an info without `_info`.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        help: impl Into<String>,
        metric: impl EncodeMetric + Send + Sync + Debug + 'static,
    ) {
        let name = name.into();
        let ending = match metric.metric_type() {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            _ => "",
        };
        self.names.push(format!("{name}{ending}"));
        self.registry.register(name, help, metric);
    }

    /// What every metric is called by those who read it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Everything in it, as OpenMetrics without its end.
    pub fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = encode_registry(text, &self.registry);
    }
}
