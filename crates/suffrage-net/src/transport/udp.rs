//! The UDP transport.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{SendFlags, sendto, sockopt};
use tokio::net::UdpSocket;

use super::{Config, Sealed, Wire};
use crate::Error;

/// A node on UDP.
pub type Udp = Sealed<Socket>;

/// The requested size of the socket buffers in the kernel, in bytes. The kernel may limit it.
const KERNEL_BUFFER: usize = 4 << 20;

impl Udp {
    /// Binds a socket for a node. Needs a Tokio runtime.
    pub async fn bind(address: SocketAddr, config: Config<SocketAddr>) -> Result<Udp, Error> {
        Sealed::new(Socket::bind(address).await?, config)
    }
}

/// A UDP socket.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    local: SocketAddr,
}

impl Socket {
    /// Binds a socket to this address; port 0 selects a free port. Needs a Tokio runtime.
    pub async fn bind(address: SocketAddr) -> Result<Socket, Error> {
        let failed = |source| Error::Network { doing: format!("listen on {address}"), source };
        Socket::new(UdpSocket::bind(address).await.map_err(failed)?)
    }

    /// Wraps a socket that is bound already. Needs a Tokio runtime.
    pub fn from_std(socket: std::net::UdpSocket) -> Result<Socket, Error> {
        let failed = |source| Error::Network { doing: "use the socket".to_string(), source };
        socket.set_nonblocking(true).map_err(failed)?;
        Socket::new(UdpSocket::from_std(socket).map_err(failed)?)
    }

    fn new(socket: UdpSocket) -> Result<Socket, Error> {
        let failed = |source| Error::Network { doing: "read the address of a socket".to_string(), source };
        // A smaller buffer only costs a few datagrams in a burst.
        _ = sockopt::set_socket_recv_buffer_size(&socket, KERNEL_BUFFER);
        _ = sockopt::set_socket_send_buffer_size(&socket, KERNEL_BUFFER);
        let local = socket.local_addr().map_err(failed)?;
        Ok(Socket { socket, local })
    }

    /// The bound address.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Maps an IPv4 address to IPv6 for an IPv6 socket.
    fn map_to_family(&self, to: SocketAddr) -> SocketAddr {
        match to.ip() {
            IpAddr::V4(ip) if self.local.is_ipv6() => SocketAddr::new(ip.to_ipv6_mapped().into(), to.port()),
            _ => to,
        }
    }
}

impl Wire for Socket {
    type Address = SocketAddr;

    /// Calls the kernel directly instead of Tokio: Tokio considers a new socket writable only after the first
    /// readiness event.
    fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        let sent = sendto(&self.socket, datagram, SendFlags::DONTWAIT, &self.map_to_family(to));
        match sent.map_err(io::Error::from) {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error),
        }
    }

    async fn receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        loop {
            match self.socket.recv_from(buffer).await {
                // An ICMP error about an earlier datagram that no process received.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionRefused
                            | io::ErrorKind::ConnectionReset
                            | io::ErrorKind::Interrupted
                    ) => {}
                received => return received,
            }
        }
    }
}
