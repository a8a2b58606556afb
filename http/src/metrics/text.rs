//! The two formats of `/metrics`: the Prometheus text format, and OpenMetrics for clients that request it.

use axum::http::HeaderMap;

use crate::media;

/// A format of `/metrics`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The Prometheus text format, version 0.0.4, which all scrapers and `promtool check metrics` read.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

const OPENMETRICS: &str = "application/openmetrics-text";

impl Format {
    /// Chooses OpenMetrics if the client names it and does not prefer text.
    pub fn wanted(headers: &HeaderMap) -> Self {
        let open = media::quality(headers, &[OPENMETRICS]);
        let text = media::quality(headers, &["text/plain", "text/*", "*/*"]);
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The content type of the format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts OpenMetrics text to this format.
    pub(super) fn of(self, text: String) -> String {
        match self {
            Format::OpenMetrics => text,
            Format::Prometheus => older(&text),
        }
    }
}

/// Converts OpenMetrics to the older format. In that, the name of a counter includes `_total`, info metrics are gauges,
/// and there are no units and no end mark.
fn older(text: &str) -> String {
    let mut older = String::with_capacity(text.len() + 1024);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(help) = line.strip_prefix("# HELP ") else {
            if line != "# EOF" && !line.starts_with("# UNIT ") {
                older.extend([line, "\n"]);
            }
            continue;
        };
        // The type line always follows. It determines the name in both lines.
        let (name, about) = help.split_once(' ').unwrap_or((help, ""));
        let kind = lines.next_if(|line| line.starts_with("# TYPE ")).unwrap_or_default();
        let (ending, kind) = match kind.rsplit(' ').next().unwrap_or_default() {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            "unknown" => ("", "untyped"),
            kind => ("", kind),
        };
        let parts =
            ["# HELP ", name, ending, " ", about, "\n# TYPE ", name, ending, " ", kind, "\n"];
        older.extend(parts);
    }
    older
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};

    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        let wanted = |accept: &[&'static str]| {
            let values = accept.iter().map(|text| (header::ACCEPT, HeaderValue::from_static(text)));
            Format::wanted(&values.collect())
        };
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for accept in
            [prometheus, "application/openmetrics-text", "Application/OpenMetrics-Text, */*"]
        {
            assert_eq!(wanted(&[accept]), Format::OpenMetrics, "{accept}");
        }
        assert_eq!(
            wanted(&["text/html;q=0.5", "application/openmetrics-text"]),
            Format::OpenMetrics
        );
        for accept in [
            "*/*",
            "text/plain, application/openmetrics-text; q=0.9",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=no",
            "text/html",
            "",
        ] {
            assert_eq!(wanted(&[accept]), Format::Prometheus, "{accept}");
        }
        assert_eq!(wanted(&[]), Format::Prometheus);
    }

    #[test]
    fn the_older_format_has_its_own_names_and_no_end() {
        let text = "# HELP a Things.\n# TYPE a counter\na_total{x=\"y\"} 1\n# HELP b_info Is.\n# TYPE b_info gauge\n\
                    # HELP c What.\n# TYPE c info\n# UNIT c seconds\nc_info{v=\"1\"} 1\n# EOF\n";
        let older = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"y\"} 1\n# HELP b_info Is.\n\
                     # TYPE b_info gauge\n# HELP c_info What.\n# TYPE c_info gauge\nc_info{v=\"1\"} 1\n";
        assert_eq!(Format::Prometheus.of(text.into()), older);
        assert_eq!(Format::OpenMetrics.of(text.into()), text);
    }
}
