//! Settings of traces.

use clap::Args as ClapArgs;
use leasehold_server::trace::{Endpoint, Options};

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Traces")]
pub(super) struct TraceArgs {
    /// The collector to which the server sends traces, as OTLP over HTTP: http://HOST:4318 [default: off].
    #[arg(long, env = "LEASEHOLD_OTLP_ENDPOINT")]
    otlp_endpoint: Option<Endpoint>,
    /// The share of requests that begin a trace, from 0 to 1. Those that are part of a trace (`traceparent`) are traced
    /// if its sampled flag is set.
    #[arg(long, env = "LEASEHOLD_OTLP_SAMPLE", default_value_t = 1.0, value_parser = share)]
    otlp_sample: f64,
    /// Maximum spans that wait to be sent; more are dropped.
    #[arg(long, env = "LEASEHOLD_OTLP_QUEUE_MAX", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..))]
    otlp_queue_max: u32,
}

impl TraceArgs {
    pub(super) fn options(&self) -> Option<Options> {
        let (sample, queue_max) = (self.otlp_sample, self.otlp_queue_max as usize);
        self.otlp_endpoint.clone().map(|endpoint| Options { endpoint, sample, queue_max })
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be a number from 0 to 1".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_between_nothing_and_all() {
        assert_eq!((share("0"), share("0.25"), share("1")), (Ok(0.0), Ok(0.25), Ok(1.0)));
        for text in ["", "-0.1", "1.1", "NaN", "half", "10%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
