//! The flags of every command that sends requests to a server: URL, namespace, credentials and owner.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use leasehold::{Client, ClientBuilder, Error};

use crate::duration::DurationArg;
use crate::exit::{Failure, USAGE};

pub(crate) const URL_DEFAULT: &str = "http://127.0.0.1:8080";

const CONNECT_TIMEOUT: DurationArg = DurationArg(Duration::from_secs(3));
/// The pause after the first failed connection attempt; it doubles each time.
const GREET_PAUSE: Duration = Duration::from_millis(50);

/// Flags of every command that sends requests to a server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// URL of the server: http://HOST:PORT, https://HOST:PORT or unix:PATH; for a cluster, several separated by
    /// commas.
    #[arg(long, env = "LEASEHOLD_URL", default_value = URL_DEFAULT)]
    pub(crate) url: String,
    /// Namespace of the lock [default: that of the server]
    #[arg(long, env = "LEASEHOLD_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// File with the API key; takes precedence over LEASEHOLD_API_KEY.
    #[arg(long, alias = "token-file", env = "LEASEHOLD_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    /// Send the API key over plain HTTP to another machine, where others can read it.
    #[arg(long, env = "LEASEHOLD_INSECURE", num_args = 0..=1, default_missing_value = "true",
          default_value_t = false, require_equals = true)]
    insecure: bool,
    #[command(flatten)]
    trust: TrustArgs,
    /// How long to try to reach the server before the first response.
    #[arg(long, env = "LEASEHOLD_CONNECT_TIMEOUT", value_name = "TIME", default_value_t = CONNECT_TIMEOUT)]
    pub(crate) connect_timeout: DurationArg,
}

impl ServerArgs {
    /// Returns the arguments for a command that has its own flags for the URL and the key.
    pub(crate) fn at(url: &str, api_key_file: Option<PathBuf>, trust: TrustArgs) -> Self {
        Self {
            url: url.into(),
            namespace: None,
            api_key_file,
            insecure: false,
            trust,
            connect_timeout: CONNECT_TIMEOUT,
        }
    }

    /// Returns a client for that server. Nothing is sent yet.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Ok(self.builder()?.build()?)
    }

    /// Returns a client for that server, after the server has answered a first request.
    pub(crate) async fn reach(&self) -> Result<Client, Failure> {
        let client = self.client()?;
        self.greet(&client).await?;
        Ok(client)
    }

    fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder(&self.url).connect_timeout(self.time_each());
        if let Some(namespace) = &self.namespace {
            builder = builder.namespace(namespace);
        }
        builder = self.trust.apply(builder);
        if let Some(key) = self.api_key()? {
            builder = builder.api_key(key).insecure(self.insecure);
        }
        Ok(builder)
    }

    /// The time limit for each of several URLs, so that every one is tried.
    fn time_each(&self) -> Duration {
        let n_urls = u32::try_from(self.url.split(',').count()).unwrap_or(u32::MAX);
        self.connect_timeout.0 / n_urls
    }

    /// Waits until the server answers, before a request that can take long. Any response counts, whatever it says.
    pub(crate) async fn greet(&self, client: &Client) -> Result<(), Failure> {
        let within = self.connect_timeout.0;
        let asked_at = Instant::now();
        let mut pause = GREET_PAUSE;
        loop {
            let left = within.saturating_sub(asked_at.elapsed()).min(self.time_each());
            let error = match tokio::time::timeout(left, client.ready()).await {
                Ok(Err(error @ (Error::Unreachable(_) | Error::Broken(_)))) => error,
                Ok(Err(error @ Error::Untrusted(_))) => return Err(error.into()),
                Ok(_) => return Ok(()),
                Err(_) => Error::Unreachable(format!(
                    "{}: no response within {within:?}. Is this the right address?",
                    self.url
                )),
            };
            if asked_at.elapsed() + pause >= within {
                return Err(match error {
                    Error::Broken(_) => Error::Unreachable(format!(
                        "{}: not an HTTP response. Is this a Leasehold server? Should the URL start with https://?",
                        self.url
                    )),
                    error => error,
                }
                .into());
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Returns the variables that make the next command of a script use the same server and namespace, except those
    /// that are already set.
    pub(crate) fn exports(&self) -> Vec<(&'static str, &str)> {
        let is_known = |name, value: &str, default| {
            std::env::var(name).map_or(default == Some(value), |known| known == value)
        };
        let url = Some(self.url.as_str());
        let url = url.filter(|url| !is_known("LEASEHOLD_URL", url, Some(URL_DEFAULT)));
        let namespace = self.namespace.as_deref();
        let namespace = namespace.filter(|name| !is_known("LEASEHOLD_NAMESPACE", name, None));
        let named = |name, value: Option<_>| value.map(|value| (name, value));
        [named("LEASEHOLD_URL", url), named("LEASEHOLD_NAMESPACE", namespace)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Makes a command use the same server and namespace. A key is passed on only if `passes_api_key` is set.
    #[cfg(target_os = "linux")]
    pub(crate) fn hand_on(&self, command: &mut std::process::Command, passes_api_key: bool) {
        command.env("LEASEHOLD_URL", &self.url);
        self.trust.hand_on(command, passes_api_key);
        match &self.namespace {
            Some(namespace) => command.env("LEASEHOLD_NAMESPACE", namespace),
            None => command.env_remove("LEASEHOLD_NAMESPACE"),
        };
        if !passes_api_key {
            command.env_remove("LEASEHOLD_API_KEY").env_remove("LEASEHOLD_API_KEY_FILE");
        } else if let Some(file) = &self.api_key_file {
            command.env("LEASEHOLD_API_KEY_FILE", absolute(file));
        }
    }

    /// Returns whether requests carry a credential.
    pub(crate) fn has_credential(&self) -> Result<bool, Failure> {
        Ok(self.api_key()?.is_some() || self.trust.client_cert_file.is_some())
    }

    /// Returns the API key, if there is one. There is no flag for the key itself: other users could read it in the
    /// list of processes.
    pub(crate) fn api_key(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.api_key_file else {
            return Ok(std::env::var("LEASEHOLD_API_KEY").ok().filter(|key| !key.is_empty()));
        };
        let why = |error| Failure::new(USAGE, format!("{}: {error}", file.display()));
        let key = std::fs::read_to_string(file).map_err(why)?;
        match key.trim() {
            "" => Err(Failure::new(USAGE, format!("{}: contains no API key", file.display()))),
            key => Ok(Some(key.into())),
        }
    }
}

/// Flags for TLS: the trusted CAs, and the client certificate.
#[derive(Args, Clone, Debug)]
pub(crate) struct TrustArgs {
    /// PEM file with the CAs that can sign the server's certificate [default: the CAs that the system trusts]
    #[arg(long, env = "LEASEHOLD_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// PEM file with the client certificate.
    #[arg(long, env = "LEASEHOLD_CLIENT_CERT_FILE", requires = "client_key_file")]
    client_cert_file: Option<PathBuf>,
    /// PEM file with the private key of the client certificate.
    #[arg(long, env = "LEASEHOLD_CLIENT_KEY_FILE", requires = "client_cert_file")]
    client_key_file: Option<PathBuf>,
}

impl TrustArgs {
    fn apply(&self, mut builder: ClientBuilder) -> ClientBuilder {
        if let Some(file) = &self.ca_file {
            builder = builder.ca_file(file);
        }
        if let (Some(certificate), Some(key)) = (&self.client_cert_file, &self.client_key_file) {
            builder = builder.client_certificate(certificate, key);
        }
        builder
    }

    /// Passes the files on to a command. A client certificate is a credential, like a key.
    #[cfg(target_os = "linux")]
    fn hand_on(&self, command: &mut std::process::Command, passes_credentials: bool) {
        if let Some(file) = &self.ca_file {
            command.env("LEASEHOLD_CA_FILE", absolute(file));
        }
        let credentials = [
            ("LEASEHOLD_CLIENT_CERT_FILE", &self.client_cert_file),
            ("LEASEHOLD_CLIENT_KEY_FILE", &self.client_key_file),
        ];
        for (name, file) in credentials {
            match file {
                Some(file) if passes_credentials => command.env(name, absolute(file)),
                _ => command.env_remove(name),
            };
        }
    }
}

/// Returns a path that stays valid when the command changes its directory.
#[cfg(target_os = "linux")]
fn absolute(file: &std::path::Path) -> PathBuf {
    std::path::absolute(file).unwrap_or(file.into())
}

/// Flags of a command that holds locks itself. Its owner id is unique unless it is given.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Owner id [default: HOST-PID-RANDOM]
    #[arg(long, env = "LEASEHOLD_OWNER")]
    owner: Option<String>,
}

impl ConnectionArgs {
    /// Returns a client for that server. Nothing is sent yet.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let mut builder = self.server.builder()?;
        if let Some(owner) = &self.owner {
            builder = builder.owner(owner);
        }
        Ok(builder.build()?)
    }
}
