//! The two ends of a connection in one process.

use std::net::Shutdown;
use std::process::Command;

use super::*;

/// A client's end, and the watch of it. The client is this process.
fn pair() -> (std::os::unix::net::UnixStream, Watch) {
    let (client, server) = std::os::unix::net::UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    let peer = LocalPeer(Arc::new(UnixStream::from_std(server).unwrap()));
    let watch = peer.watch().unwrap();
    (client, watch)
}

async fn is_over(watch: &Watch) -> bool {
    // Readiness needs a turn of the runtime; the kernel knows before.
    timeout(Duration::from_millis(50), watch.gone()).await.is_ok()
}

#[tokio::test]
async fn a_client_is_gone_when_it_has_closed_both_directions_and_not_before() {
    for how in ["close", "shut down", "one by one"] {
        let (client, watch) = pair();
        assert!(watch.watches_process());
        assert!(!watch.is_gone() && !is_over(&watch).await);
        match how {
            "close" => drop(client),
            "shut down" => client.shutdown(Shutdown::Both).unwrap(),
            _ => {
                for (direction, rest) in
                    [(Shutdown::Write, Shutdown::Read), (Shutdown::Read, Shutdown::Write)]
                {
                    let (client, watch) = pair();
                    client.shutdown(direction).unwrap();
                    assert!(!watch.is_gone() && !is_over(&watch).await, "{direction:?}");
                    client.shutdown(rest).unwrap();
                    watch.gone().await;
                }
                continue;
            }
        }
        assert!(watch.is_gone(), "{how}");
        watch.gone().await;
    }
}

/// What a client sends and reads meanwhile does not matter.
#[tokio::test]
async fn a_client_that_writes_and_reads_is_not_gone() {
    use std::io::{Read as _, Write as _};
    let (mut client, watch) = pair();
    client.write_all(b"more").unwrap();
    for _ in 0..3 {
        rustix::io::write(watch.socket.get_ref(), b"events").unwrap();
        client.read_exact(&mut [0; 6]).unwrap();
        assert!(!is_over(&watch).await);
    }
}

#[tokio::test]
async fn a_client_is_gone_when_its_process_has_exited() {
    let (_client, watch) = pair();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
    let watch = Watch { process: Some(register(process, Interest::READABLE).unwrap()), ..watch };
    assert!(!watch.is_gone() && !is_over(&watch).await);
    child.kill().unwrap();
    // It has not been waited for: it is a zombie.
    watch.gone().await;
    assert!(watch.is_gone());
    child.wait().unwrap();
    assert!(watch.is_gone());
}

#[test]
fn groups_have_names_and_numbers() {
    assert_eq!(group_id("root").unwrap(), 0);
    assert_eq!(group_id("4711").unwrap(), 4_711);
    assert!(group_id("no-such-group").unwrap_err().to_string().contains("no-such-group"));
}
