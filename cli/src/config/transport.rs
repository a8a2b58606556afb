//! Settings of TLS, Unix sockets, load balancers and the listener for metrics.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use leasehold_server::http::{self, Listen, TlsFiles};

use crate::duration::DurationArg;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Transport")]
pub(super) struct TransportArgs {
    /// PEM file with the server's certificate, followed by the intermediate certificates. The server rereads it when it
    /// changes.
    #[arg(long, env = "LEASEHOLD_TLS_CERT_FILE")]
    tls_cert_file: Option<PathBuf>,
    /// PEM file with the private key of that certificate.
    #[arg(long, env = "LEASEHOLD_TLS_KEY_FILE")]
    tls_key_file: Option<PathBuf>,
    /// Listen address for /metrics and health checks only, without authentication.
    #[arg(long, env = "LEASEHOLD_METRICS_LISTEN")]
    pub(super) metrics_listen: Option<Listen>,
    /// Maximum namespaces that /metrics lists separately: those with the most leases. The others are counted together.
    /// 0: none is listed.
    #[arg(long, env = "LEASEHOLD_METRICS_NAMESPACES_MAX", default_value_t = 100)]
    metrics_namespaces_max: usize,
    /// Show namespace names at --metrics-listen, which needs no credential.
    #[arg(long, env = "LEASEHOLD_METRICS_LISTEN_NAMESPACES", num_args = 0..=1, default_missing_value = "true",
          default_value_t = false, require_equals = true)]
    metrics_listen_namespaces: bool,
    /// File mode of the Unix sockets, in octal. It determines which users can connect.
    #[arg(long, env = "LEASEHOLD_UNIX_SOCKET_MODE", default_value = "0660", value_parser = mode)]
    unix_socket_mode: u32,
    /// Addresses or networks of load balancers that begin every connection with a PROXY protocol header. They must send
    /// one; headers from other addresses are not accepted.
    #[arg(long, env = "LEASEHOLD_PROXY_PROTOCOL_FROM", value_delimiter = ',', value_parser = http::parse_network)]
    proxy_protocol_from: Vec<http::IpNet>,
    /// Time limit for a TLS handshake, and for a PROXY protocol header.
    #[arg(long, env = "LEASEHOLD_HANDSHAKE_TIMEOUT", default_value = "5s")]
    handshake_timeout: DurationArg,
    /// Maximum handshakes at the same time. If there are more, the server drops the one that has taken the longest.
    #[arg(long, env = "LEASEHOLD_HANDSHAKES_MAX", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..))]
    handshakes_max: u32,
}

impl TransportArgs {
    /// Checks that a certificate is set if a listener needs one, and only then.
    pub(super) fn check(&self, listening: &[(&str, Listen)]) -> Result<(), String> {
        let metrics = self.metrics_listen.iter().map(|listen| ("--metrics-listen", listen));
        let mut all = listening.iter().map(|(flag, listen)| (*flag, listen)).chain(metrics);
        let tls = all.find(|(_, listen)| listen.is_tls());
        match (&self.tls_cert_file, &self.tls_key_file, tls) {
            (Some(_), None, _) => Err("--tls-cert-file needs --tls-key-file".into()),
            (None, Some(_), _) => Err("--tls-key-file needs --tls-cert-file".into()),
            (None, None, Some(("--redis-listen", _))) => {
                Err("--redis-tls needs a certificate: --tls-cert-file and --tls-key-file".into())
            }
            (None, None, Some((flag, listen))) => Err(format!(
                "{flag} {listen} needs a certificate: --tls-cert-file and --tls-key-file"
            )),
            (Some(_), Some(_), None) => Err(
                "--tls-cert-file has no effect: no --listen begins with https://, and --redis-tls is off"
                    .into(),
            ),
            (Some(_), Some(_), Some(_)) => self.files().iter().try_for_each(TlsFiles::check),
            (None, None, None) => Ok(()),
        }
    }

    pub(super) fn files(&self) -> Option<TlsFiles> {
        let (certificate, key) = (self.tls_cert_file.clone()?, self.tls_key_file.clone()?);
        Some(TlsFiles { certificate, key })
    }

    pub(super) fn options(&self, options: http::Options) -> http::Options {
        http::Options {
            handshake_timeout: self.handshake_timeout.0,
            handshakes_max: self.handshakes_max as usize,
            proxy_protocol_from: self.proxy_protocol_from.as_slice().into(),
            unix_socket_mode: self.unix_socket_mode,
            metrics_namespaces_max: self.metrics_namespaces_max,
            metrics_listen_namespaces: self.metrics_listen_namespaces,
            ..options
        }
    }
}

fn mode(text: &str) -> Result<u32, String> {
    // The leading zero is required, so that no decimal number is read as octal.
    let octal = text.strip_prefix('0').and_then(|text| u32::from_str_radix(text, 8).ok());
    octal.filter(|mode| *mode <= 0o777).ok_or_else(|| "is not a mode such as \"0660\"".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal() {
        assert_eq!(mode("0660"), Ok(0o660));
        assert_eq!(mode("0777"), Ok(0o777));
        for text in ["", "0", "08", "01777", "-1", "rw", "660", "432"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
