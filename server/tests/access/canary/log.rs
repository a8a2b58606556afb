//! Captures all log output at the finest level, in both formats.

use std::io::Write;
use std::sync::{Arc, Mutex};

use leasehold_testkit::Value;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) struct Log {
    plain: Sink,
    json: Sink,
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Starts capturing.
    pub(crate) fn begin() -> Self {
        let log = Self { plain: Sink::default(), json: Sink::default() };
        tracing_subscriber::registry()
            .with(LevelFilter::TRACE)
            .with(fmt::layer().with_ansi(false).with_writer(log.plain.clone()))
            .with(fmt::layer().json().flatten_event(true).with_writer(log.json.clone()))
            .init();
        log
    }

    /// Returns the lines captured so far.
    pub(crate) fn end(&self) -> (Vec<String>, Vec<String>) {
        (self.plain.lines(), self.json.lines())
    }
}

impl Sink {
    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap();
        let text = String::from_utf8(bytes.clone()).expect("a log is text");
        text.split_terminator('\n').map(str::to_owned).collect()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Checks that the server wrote every line itself and that none contains a terminal control character.
pub(crate) fn check_harmless(lines: &[String], objects: &[String]) {
    let is_obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    for line in lines {
        assert!(!line.contains(is_obeyed), "{line:?}");
        let begins_with_a_time = line.starts_with("20") && line.chars().nth(10) == Some('T');
        assert!(begins_with_a_time, "{line:?} was forged");
    }
    for line in objects {
        assert!(!line.contains(is_obeyed), "{line:?}");
        let object: Value = serde_json::from_str(line).expect("a line is an object");
        assert!(object["level"].is_string(), "{line:?} was forged");
    }
}
