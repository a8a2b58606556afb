//! A metrics registry that also knows the names of metrics without values, which the text format omits.

use std::fmt::Debug;

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// A registry that knows the names of its metrics.
#[derive(Default)]
pub struct Book {
    registry: Registry,
    names: Vec<String>,
}

impl Book {
    /// Adds a metric. Its `name` is without the suffix `_total` of a counter or `_info` of an info metric.
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

    /// Returns the full name of each metric, as scrapers see it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Appends all metrics in the OpenMetrics format, without the final `# EOF`.
    pub fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = encode_registry(text, &self.registry);
    }
}
