//! Addresses of loopback that nobody else uses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

/// Above the ports of well-known services, below those that the kernel chooses for sockets without a port.
const FIRST_PORT: u16 = 20_000;
const LAST_PORT: u16 = 32_767;
/// 127.128.0.0: the upper half of loopback, 23 bits wide. A process id of Linux has 22 bits at most.
const FIRST_ADDRESS: u32 = 0x7f80_0000;

/// An address that is free, and stays so for whoever was given it, over restarts of what listens there.
///
/// Every process has an IP address of its own, made of its process id (Linux answers on all of 127.0.0.0/8), and
/// gives each of its ports once. So no two tests of one machine are given the same address, and nobody has to ask
/// the kernel for a free port, release it, and hope.
pub fn address() -> SocketAddr {
    static NEXT_PORT: AtomicU16 = AtomicU16::new(FIRST_PORT);
    let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
    assert!((FIRST_PORT..=LAST_PORT).contains(&port), "all ports of this process are used up");
    SocketAddr::from((Ipv4Addr::from_bits(FIRST_ADDRESS + std::process::id()), port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn addresses_differ_and_can_be_listened_at() {
        let (one, two) = (address(), address());
        assert_ne!(one, two);
        assert!(one.ip().is_loopback() && one.ip() != Ipv4Addr::LOCALHOST);
        let _both = (UdpSocket::bind(one).unwrap(), TcpListener::bind(one).unwrap());
        UdpSocket::bind(two).unwrap().send_to(b"x", one).unwrap();
    }

    /// The kernel gives no larger id: `/proc/sys/kernel/pid_max` is 2^22 at most.
    #[test]
    fn every_process_id_has_an_address() {
        let last = Ipv4Addr::from_bits(FIRST_ADDRESS + (1 << 22));
        assert!(last.is_loopback() && last != Ipv4Addr::new(127, 255, 255, 255));
    }
}
