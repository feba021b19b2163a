//! Unused loopback addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port: above well-known services.
const FIRST_PORT: u16 = 20_000;
/// The last port: below the ephemeral ports of the kernel.
const LAST_PORT: u16 = 32_767;
/// 127.128.0.0: the upper half of loopback, 23 bits wide. A process id of Linux has at most 22 bits.
const FIRST_ADDRESS: u32 = 0x7f80_0000;

/// A free address. It stays free for the caller over restarts of the program that listens there.
///
/// Every process has its own IP address, derived from its process id (Linux answers on all of 127.0.0.0/8), and hands
/// out each port once. So no two tests on one machine get the same address, and no test binds, drops and rebinds a
/// port.
pub fn address() -> SocketAddr {
    static NEXT_PORT: AtomicU16 = AtomicU16::new(FIRST_PORT);
    let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
    assert!((FIRST_PORT..=LAST_PORT).contains(&port), "all ports of this process are in use");
    SocketAddr::from((Ipv4Addr::from_bits(FIRST_ADDRESS + std::process::id()), port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn addresses_differ_and_can_be_bound() {
        let (one, two) = (address(), address());
        assert_ne!(one, two);
        assert!(one.ip().is_loopback() && one.ip() != Ipv4Addr::LOCALHOST);
        let _both = (UdpSocket::bind(one).unwrap(), TcpListener::bind(one).unwrap());
        UdpSocket::bind(two).unwrap().send_to(b"x", one).unwrap();
    }

    /// `/proc/sys/kernel/pid_max` is 2^22 at most.
    #[test]
    fn every_process_id_has_an_address() {
        let last = Ipv4Addr::from_bits(FIRST_ADDRESS + (1 << 22));
        assert!(last.is_loopback() && last != Ipv4Addr::new(127, 255, 255, 255));
    }
}
