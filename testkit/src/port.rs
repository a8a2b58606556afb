//! Ports of this machine that no other test can get.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port that no other process gets while this value exists. A server can listen on it, stop, and listen on it again.
/// While no server listens, connections are refused.
pub struct ReservedPort {
    /// The address with the port.
    pub address: SocketAddr,
    _socket: TcpSocket,
}

impl ReservedPort {
    /// Reserves a free port of 127.0.0.1.
    pub fn any() -> Self {
        Self::of(([127, 0, 0, 1], 0).into()).expect("a port")
    }

    /// Reserves the port of this address. Fails if a server listens on it.
    pub fn of(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A server that also sets this option can listen on the port of a socket that does not listen.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { address: socket.local_addr()?, _socket: socket })
    }
}

/// Returns an address on which no process listens until the test process ends.
pub fn nowhere() -> SocketAddr {
    Box::leak(Box::new(ReservedPort::any())).address
}
