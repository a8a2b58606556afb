//! Sends one `POST` over a separate connection.

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

/// The `User-Agent` header, by which the receiver recognizes this server.
const AGENT: &str = concat!("leasehold/", env!("CARGO_PKG_VERSION"));

/// The receiver's response.
pub(super) enum Answer {
    /// The receiver accepted the warning.
    Taken,
    /// The receiver rejected the warning, but might accept it later.
    Later(StatusCode),
    /// The receiver would reject the warning again.
    Refused(StatusCode),
}

/// A connection, with or without TLS.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl ByteStream for TcpStream {}
impl ByteStream for TlsStream<TcpStream> {}

/// Sends a warning. The error is why there is no response.
pub(super) async fn post(
    target: &Target,
    timestamp: i64,
    signature: Option<String>,
    body: Bytes,
) -> Result<Answer, String> {
    let line = connect(target).await.map_err(|why| format!("cannot connect: {why}"))?;
    let why = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(line)).await.map_err(why)?;
    // The connection ends when the sender is dropped, which is after the response.
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
        // Redirects are not followed: only the operator decides where warnings go.
        status => Answer::Refused(status),
    })
}

async fn connect(target: &Target) -> Result<Box<dyn ByteStream>, String> {
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

/// Creates the TLS configuration on first use, so that a machine without a list of CAs can still send warnings to
/// itself.
fn tls() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let made = || {
        let mut config = fetch::tls()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    };
    CONFIG.get_or_init(made).clone()
}
