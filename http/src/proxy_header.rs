//! The PROXY protocol: a load balancer sends a header before everything else, which contains the address of the client
//! whose connection it forwards.
//!
//! Only connections from `proxy-protocol-from` have this header, and they must have it. Exactly the header is read,
//! because TLS or HTTP follows.

use std::io::{self, ErrorKind};
use std::net::IpAddr;

use ppp::{HeaderResult, v1, v2};
use tokio::net::TcpStream;

/// Maximum length of a version 1 header, by its specification.
const TEXT_BYTES_MAX: usize = 107;
/// The first bytes of every version 2 header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Size of the part of a version 2 header that contains the length of the rest.
const BINARY_HEAD_BYTES: usize = 16;
/// Maximum size of that rest: addresses, and extensions that are ignored.
const BINARY_REST_BYTES_MAX: usize = 4096;

/// Reads the header and returns the client's address; `None` for a health check of the load balancer itself.
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

/// Reads a line, and no byte beyond it.
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

/// Reads this many more bytes, and none beyond them.
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
