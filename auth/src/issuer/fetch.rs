//! HTTP requests to issuers, with limits on the size and time of the response. Redirects are not followed.

use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::policy::Secret;

/// Maximum size of a response.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
const AGENT: &str = concat!("leasehold/", env!("CARGO_PKG_VERSION"));
/// Characters that are escaped in forms.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A response.
pub struct Fetched {
    /// The status of the response.
    pub status: StatusCode,
    /// The body of the response.
    pub body: Bytes,
}

/// Sends a `GET` request and returns the body. A status other than 200 is an error.
pub(super) async fn get(url: &Uri) -> Result<Bytes, String> {
    let request = Request::get(url).header(ACCEPT, "application/json");
    let fetched = send(url, request, Bytes::new()).await?;
    match fetched.status {
        StatusCode::OK => Ok(fetched.body),
        status => Err(format!("{} answered {status}", shown(url))),
    }
}

/// Posts a form as an OAuth client, which authenticates with its secret if it has one.
pub async fn post(
    url: &Uri,
    client: (&str, Option<&Secret>),
    form: &[(&str, &str)],
) -> Result<Fetched, String> {
    let mut request = Request::post(url)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let (id, secret) = client;
    let mut body = encode(form);
    match secret {
        Some(secret) => {
            let pair = format!("{}:{}", escape(id), escape(secret.reveal()));
            request = request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)));
        }
        None => body += &format!("&client_id={}", escape(id)),
    }
    send(url, request, body.into()).await
}

/// Posts a body without authentication.
pub async fn deliver(url: &Uri, kind: &'static str, body: Bytes) -> Result<Fetched, String> {
    send(url, Request::post(url).header(CONTENT_TYPE, kind), body).await
}

/// Encodes names and values for a form or a query string.
pub fn encode(form: &[(&str, &str)]) -> String {
    let pairs = form.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

async fn send(url: &Uri, request: http::request::Builder, body: Bytes) -> Result<Fetched, String> {
    let why = |error: &dyn std::fmt::Display| format!("cannot reach {}: {error}", shown(url));
    let request = request.header(USER_AGENT, AGENT).body(Full::new(body));
    let request = request.map_err(|error| why(&error))?;
    let asking = async {
        // Redirects are not followed: the server contacts configured addresses only.
        let response = client()?.request(request).await.map_err(|error| why(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| why(&error))?.to_bytes();
        Ok(Fetched { status, body })
    };
    match tokio::time::timeout(TIMEOUT, asking).await {
        Ok(answered) => answered,
        Err(_) => Err(why(&"no response within 5s")),
    }
}

/// Returns the URL without its query, which might contain a secret.
fn shown(url: &Uri) -> String {
    format!(
        "{}://{}{}",
        url.scheme_str().unwrap_or_default(),
        url.authority().map_or("", |it| it.as_str()),
        url.path()
    )
}

type Connector = HttpsConnector<HttpConnector>;

/// Returns the shared client. It keeps no idle connections, because each would belong to one worker thread.
fn client() -> Result<&'static Client<Connector, Full<Bytes>>, String> {
    static CLIENT: OnceLock<Result<Client<Connector, Full<Bytes>>, String>> = OnceLock::new();
    CLIENT.get_or_init(connect).as_ref().map_err(Clone::clone)
}

/// Returns a TLS configuration that trusts the system's CAs.
pub fn tls() -> Result<rustls::ClientConfig, String> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Ok(rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .try_with_platform_verifier()
        .map_err(|error| error.to_string())?
        .with_no_client_auth())
}

fn connect() -> Result<Client<Connector, Full<Bytes>>, String> {
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls()?).https_or_http().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector))
}
