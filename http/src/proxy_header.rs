//! The PROXY protocol: a header before everything else, by which a load balancer says whose connection it hands on.
//!
//! Only those of `proxy-protocol-from` are asked for it, and they must send it. Exactly the header is read: what
//! follows is for TLS or HTTP.

use std::io::{self, ErrorKind};
use std::net::IpAddr;

use ppp::{HeaderResult, v1, v2};
use tokio::net::TcpStream;

/// The longest header of version 1, as its document says.
const TEXT_BYTES_MAX: usize = 107;
/// What every header of version 2 begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The part of version 2 that says how long the rest is.
const BINARY_HEAD_BYTES: usize = 16;
/// Most bytes of the rest: addresses, and what else the load balancer says, which is not looked at.
const BINARY_REST_BYTES_MAX: usize = 4096;

/// Whose connection it is. `None`: the load balancer's own, for a health check.
pub(super) async fn read(stream: &TcpStream) -> io::Result<Option<IpAddr>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let header = match first[0] {
        b'P' => line(stream, TEXT_BYTES_MAX).await?,
        b'\r' => binary(stream).await?,
        _ => return Err(invalid("the connection does not begin with a PROXY header")),
    };
    source(&header)
}

fn source(header: &[u8]) -> io::Result<Option<IpAddr>> {
    match HeaderResult::parse(header) {
        HeaderResult::V1(Ok(header)) => Ok(match header.addresses {
            v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
            v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
            v1::Addresses::Unknown => None,
        }),
        HeaderResult::V2(Ok(header)) if header.command == v2::Command::Local => Ok(None),
        HeaderResult::V2(Ok(header)) if header.protocol == v2::Protocol::Datagram => {
            Err(invalid("the PROXY header is about UDP"))
        }
        HeaderResult::V2(Ok(header)) => Ok(match header.addresses {
            v2::Addresses::IPv4(addresses) => Some(addresses.source_address.into()),
            v2::Addresses::IPv6(addresses) => Some(addresses.source_address.into()),
            v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
        }),
        HeaderResult::V1(Err(error)) => Err(invalid(&format!("the PROXY header: {error}"))),
        HeaderResult::V2(Err(error)) => Err(invalid(&format!("the PROXY header: {error}"))),
    }
}

/// A line, and nothing beyond it.
pub(super) async fn line(stream: &TcpStream, n_max: usize) -> io::Result<Vec<u8>> {
    let mut header = Vec::with_capacity(TEXT_BYTES_MAX);
    let mut ahead = [0; TEXT_BYTES_MAX];
    while header.len() < n_max {
        let room = ahead.len().min(n_max - header.len());
        let n = stream.peek(&mut ahead[..room]).await?;
        let end = ahead[..n].iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        read_exact(stream, &mut header, end.unwrap_or(n)).await?;
        if end.is_some() {
            return Ok(header);
        }
        if n == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Err(invalid(&format!("the first line has more than {n_max} bytes")))
}

async fn binary(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut header = Vec::with_capacity(64);
    read_exact(stream, &mut header, BINARY_HEAD_BYTES).await?;
    if header[..SIGNATURE.len()] != SIGNATURE {
        return Err(invalid("the connection does not begin with a PROXY header"));
    }
    let n_rest = usize::from(u16::from_be_bytes([header[14], header[15]]));
    if n_rest > BINARY_REST_BYTES_MAX {
        return Err(invalid("the PROXY header has more than 4096 bytes"));
    }
    read_exact(stream, &mut header, n_rest).await?;
    Ok(header)
}

/// So many bytes more, and none beyond.
async fn read_exact(stream: &TcpStream, header: &mut Vec<u8>, n: usize) -> io::Result<()> {
    let mut at = header.len();
    header.resize(at + n, 0);
    while at < header.len() {
        stream.readable().await?;
        match stream.try_read(&mut header[at..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => at += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}
