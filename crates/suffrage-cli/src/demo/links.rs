//! Links between the nodes of a demo, which can be cut in one direction or in both.
//!
//! The demo has bound the socket of every node, and attaches a packet filter (classic BPF) to it. The kernel then drops the
//! datagrams of some senders, as a firewall would. That needs no privileges and no change of the nodes.

use std::collections::BTreeSet;
use std::io;
use std::net::UdpSocket;

use socket2::{SockFilter, SockRef};

/// Loads the two bytes at an offset. A filter of a UDP socket sees the header of UDP, which begins with the port of the
/// sender.
const LOAD_PORT: u16 = 0x28;
/// Jumps if the loaded value equals the constant.
const JUMP_IF_EQUAL: u16 = 0x15;
/// Ends the filter with the number of bytes that pass.
const PASS: u16 = 0x06;

/// The links that are cut, each as sender and receiver.
#[derive(Debug, Default)]
pub(super) struct Links {
    cut: BTreeSet<(usize, usize)>,
}

impl Links {
    /// Cuts or restores a link in one direction.
    pub(super) fn set(&mut self, sockets: &[UdpSocket], from: usize, to: usize, cut: bool) -> io::Result<()> {
        let changed = if cut { self.cut.insert((from, to)) } else { self.cut.remove(&(from, to)) };
        if changed { self.apply(sockets, to) } else { Ok(()) }
    }

    /// Restores all links.
    pub(super) fn heal(&mut self, sockets: &[UdpSocket]) -> io::Result<()> {
        self.cut.clear();
        (0..sockets.len()).try_for_each(|receiver| self.apply(sockets, receiver))
    }

    /// The links that are cut.
    pub(super) fn cut(&self) -> impl Iterator<Item = (usize, usize)> {
        self.cut.iter().copied()
    }

    /// Gives the socket of a receiver its filter.
    fn apply(&self, sockets: &[UdpSocket], receiver: usize) -> io::Result<()> {
        let senders = self.cut.iter().filter(|(_, to)| *to == receiver).map(|(from, _)| *from);
        let ports: Vec<u16> = senders
            .map(|sender| sockets[sender].local_addr().map(|address| address.port()))
            .collect::<Result<_, _>>()?;
        SockRef::from(&sockets[receiver]).attach_filter(&filter(&ports))
    }
}

/// The filter that drops the datagrams of these ports, and passes all others.
fn filter(ports: &[u16]) -> Vec<SockFilter> {
    let mut filter = vec![SockFilter::new(LOAD_PORT, 0, 0, 0)];
    for (place, port) in ports.iter().enumerate() {
        // The last instruction drops; the one before it passes.
        let to_drop = (ports.len() - place) as u8;
        filter.push(SockFilter::new(JUMP_IF_EQUAL, to_drop, 0, u32::from(*port)));
    }
    filter.push(SockFilter::new(PASS, 0, 0, u32::MAX));
    filter.push(SockFilter::new(PASS, 0, 0, 0));
    filter
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The senders whose datagrams reach a receiver. The last datagram, of a socket that nobody cuts, ends the wait.
    fn heard(sockets: &[UdpSocket], receiver: usize) -> Vec<usize> {
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = sockets[receiver].local_addr().unwrap();
        for (sender, socket) in sockets.iter().enumerate() {
            socket.send_to(&[sender as u8], address).unwrap();
        }
        stranger.send_to(&[255], address).unwrap();
        let mut heard = Vec::new();
        loop {
            let mut byte = [0];
            sockets[receiver].recv(&mut byte).unwrap();
            match byte[0] {
                255 => return heard,
                sender => heard.push(usize::from(sender)),
            }
        }
    }

    #[test]
    fn cut_links_drop_datagrams_in_their_direction_until_they_are_healed() {
        let sockets: Vec<UdpSocket> = (0..4).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for socket in &sockets {
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        }
        let mut links = Links::default();
        assert_eq!(heard(&sockets, 1), [0, 1, 2, 3]);
        links.set(&sockets, 0, 1, true).unwrap();
        links.set(&sockets, 3, 1, true).unwrap();
        assert_eq!(heard(&sockets, 1), [1, 2]);
        assert_eq!(heard(&sockets, 0), [0, 1, 2, 3], "the other direction is not cut");
        links.set(&sockets, 0, 1, false).unwrap();
        assert_eq!(heard(&sockets, 1), [0, 1, 2]);
        links.heal(&sockets).unwrap();
        assert_eq!(heard(&sockets, 1), [0, 1, 2, 3]);
        assert_eq!(links.cut().count(), 0);
    }
}
