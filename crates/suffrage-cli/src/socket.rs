//! Passing a bound UDP socket to a child process, over the Unix socket that is the child's standard input.
//!
//! The parent binds port 0 and knows the address before the child starts. No other process can take the port in between,
//! and a child that is started again gets the same address.
#![allow(clippy::disallowed_types, reason = "sockets of real processes")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The byte that carries the socket.
const MARK: u8 = b'S';

/// Sends a socket to the process at the other end.
pub fn send(channel: &UnixStream, socket: &UdpSocket) -> io::Result<()> {
    let sockets = [socket.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&sockets)), "the buffer has room for one socket");
    sendmsg(channel, &[IoSlice::new(&[MARK])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a socket from the process at the other end. Reads no more than the byte that carries it.
pub fn receive(channel: impl AsFd) -> io::Result<UdpSocket> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(channel, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut received = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match received.next() {
        Some(descriptor) if byte[0] == MARK => Ok(descriptor.into()),
        _ => Err(io::Error::other("standard input carries no socket")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_socket_keeps_its_address_and_the_stream_its_text() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        send(&ours, &socket).unwrap();
        (&ours).write_all(b"text").unwrap();
        drop(ours);
        let received = receive(&theirs).unwrap();
        assert_eq!(received.local_addr().unwrap(), socket.local_addr().unwrap());
        let mut text = String::new();
        (&theirs).read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert!(receive(&theirs).is_err(), "the stream has ended");
    }

    #[test]
    fn text_without_a_socket_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&ours).write_all(b"S").unwrap();
        assert!(receive(&theirs).is_err());
    }
}
