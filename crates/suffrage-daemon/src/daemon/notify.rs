//! Notification of systemd (`sd_notify`): a datagram to the socket that the environment names.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Sends a state, such as `READY=1`, if there is a service manager.
pub(super) fn notify(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&socket.to_string_lossy(), state)
    {
        tracing::warn!("cannot notify the service manager of {state}: {error}");
    }
}

/// The state for a reload that begins now (`Type=notify-reload`). `READY=1` follows.
pub(super) fn reloading() -> String {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000;
    format!("RELOADING=1\nMONOTONIC_USEC={micros}")
}

/// A name that begins with `@` is an abstract socket (see unix(7)).
fn send(socket: &str, state: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return sender.send_to_addr(state.as_bytes(), &address).map(drop);
    }
    sender.send_to(state.as_bytes(), socket).map(drop)
}

/// The interval of watchdog notifications: half of the timeout of the service manager.
pub(super) fn watchdog() -> Option<Duration> {
    let micros = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    Some(Duration::from_micros(micros) / 2).filter(|period| !period.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_testbed::Folder;

    #[test]
    fn both_kinds_of_sockets_are_reached() {
        let folder = Folder::new().unwrap();
        let path = folder.path().join("socket");
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.to_str().unwrap(), "READY=1").unwrap();
        let mut word = [0; 20];
        let length = manager.recv(&mut word).unwrap();
        assert_eq!(&word[..length], b"READY=1");
        assert!(send("/nowhere/at/all", "READY=1").is_err());
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt;
            let name = format!("suffrage-{}", std::process::id());
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
            let manager = UnixDatagram::bind_addr(&address).unwrap();
            send(&format!("@{name}"), "STOPPING=1").unwrap();
            let length = manager.recv(&mut word).unwrap();
            assert_eq!(&word[..length], b"STOPPING=1");
        }
    }
}
