//! Which server, which namespace, and who we are: the same for every command that asks one.

use std::path::PathBuf;

use clap::Args;
use leasehold::{Client, ClientBuilder};

use crate::exit::{Failure, USAGE};

/// Flags of every command that talks to a server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Where the server is.
    #[arg(long, env = "LEASEHOLD_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// The namespace of the lock; the server's default if left out.
    #[arg(long, env = "LEASEHOLD_NAMESPACE")]
    namespace: Option<String>,
    /// A file with the API key; goes before LEASEHOLD_API_KEY.
    #[arg(long, env = "LEASEHOLD_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl ServerArgs {
    /// For a command with flags of its own for this.
    pub(crate) fn at(url: &str, token_file: Option<PathBuf>) -> Self {
        Self { url: url.into(), namespace: None, token_file }
    }

    /// A client of that server. Nothing is sent yet.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Ok(self.builder()?.build()?)
    }

    fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder(&self.url);
        if let Some(namespace) = &self.namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(key) = self.api_key()? {
            builder = builder.api_key(key);
        }
        Ok(builder)
    }

    /// A key has no flag: whoever lists processes could read it.
    fn api_key(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.token_file else {
            return Ok(std::env::var("LEASEHOLD_API_KEY").ok().filter(|key| !key.is_empty()));
        };
        let why = |error| Failure::new(USAGE, format!("{}: {error}", file.display()));
        let key = std::fs::read_to_string(file).map_err(why)?;
        Ok(Some(key.trim().into()))
    }
}

/// The same for a command that holds locks itself, as an owner that nobody else is.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Who asks; host, process and chance if left out.
    #[arg(long, env = "LEASEHOLD_OWNER")]
    owner: Option<String>,
}

impl ConnectionArgs {
    /// A client of that server. Nothing is sent yet.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let mut builder = self.server.builder()?;
        if let Some(owner) = &self.owner {
            builder = builder.owner(owner);
        }
        Ok(builder.build()?)
    }
}
