//! One `POST` over a connection of its own.

use std::sync::{Arc, OnceLock};

use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use leasehold_auth::issuer::fetch;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Target;

/// Whoever answers sees by this who asks.
const AGENT: &str = concat!("leasehold/", env!("CARGO_PKG_VERSION"));

/// What the other side made of it.
pub(super) enum Answer {
    /// It was taken.
    Taken,
    /// Not now; it may be taken if it is repeated.
    Later(StatusCode),
    /// It would be refused again.
    Refused(StatusCode),
}

/// A connection, encrypted or not.
trait Line: AsyncRead + AsyncWrite + Send + Unpin {}

impl Line for TcpStream {}
impl Line for TlsStream<TcpStream> {}

/// Sends a note. An error says why there was no answer.
pub(super) async fn post(
    target: &Target,
    timestamp: i64,
    signature: Option<String>,
    body: Bytes,
) -> Result<Answer, String> {
    let line = connect(target).await.map_err(|why| format!("cannot connect: {why}"))?;
    let why = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(line)).await.map_err(why)?;
    // It ends with the sender, and that goes with the answer.
    tokio::spawn(connection);
    let mut request = Request::post(target.path())
        .header(HOST, target.authority())
        .header(USER_AGENT, AGENT)
        .header(CONTENT_TYPE, "application/json")
        .header("leasehold-timestamp", timestamp);
    if let Some(signature) = signature {
        request = request.header("leasehold-signature", signature);
    }
    let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
    let status = sender.send_request(request).await.map_err(why)?.status();
    Ok(match status {
        status if status.is_success() => Answer::Taken,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Answer::Later(status),
        status if status.is_server_error() => Answer::Later(status),
        // Nobody is sent elsewhere: where notes go is the operator's word.
        status => Answer::Refused(status),
    })
}

async fn connect(target: &Target) -> Result<Box<dyn Line>, String> {
    let connected = TcpStream::connect(target.address()).await;
    let stream = connected.map_err(|error| error.to_string())?;
    if !target.is_tls() {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(target.name().to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(tls()?);
    let encrypted = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    Ok(Box::new(encrypted))
}

/// Created when first needed, so that a machine without a list of CAs can still send notes to itself.
fn tls() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let made = || {
        let mut config = fetch::tls()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    };
    CONFIG.get_or_init(made).clone()
}
