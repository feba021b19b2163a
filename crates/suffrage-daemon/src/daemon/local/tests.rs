//! The two ends of a connection in one process.

use std::net::Shutdown;
use std::process::Command;

use super::*;

impl LocalPeer {
    /// A client's end, and the node's. The client is this process.
    pub(in crate::daemon) fn pair() -> (std::os::unix::net::UnixStream, LocalPeer) {
        let (client, server) = std::os::unix::net::UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        (client, LocalPeer(Arc::new(UnixStream::from_std(server).unwrap())))
    }
}

/// A client's end, and the watch of it.
fn pair() -> (std::os::unix::net::UnixStream, Watch) {
    let (client, peer) = LocalPeer::pair();
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

/// Nobody is told that it leads on behalf of a client that is gone.
#[tokio::test]
async fn a_client_that_is_gone_cannot_be_watched() {
    let (client, peer) = LocalPeer::pair();
    drop(client);
    assert!(peer.watch().is_err());
    timeout(Duration::from_secs(60), peer.closed()).await.unwrap();
}

/// A process is dead if its number belongs to a thread by now. Its heir must not lead as if processes could not be watched.
#[test]
fn the_number_of_a_thread_is_that_of_no_process() {
    let (_end, wait) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || wait.recv());
    let own = std::process::id();
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<u32>().ok();
    let thread = threads.filter_map(number).find(|&thread| thread != own).unwrap();
    assert!(pidfd(Pid::from_raw(thread as i32).unwrap()).is_err());
    assert!(pidfd(Pid::from_raw(own as i32).unwrap()).unwrap().is_some());
}

/// In a folder where others can write, a link beside the socket does not make the node create a file elsewhere.
#[tokio::test]
async fn links_beside_the_socket_are_not_followed() {
    let folder = std::env::temp_dir().join(format!("suffrage-links-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (path, elsewhere) = (folder.join("s"), folder.join("elsewhere"));
    for suffix in [".lock", ".new"] {
        std::os::unix::fs::symlink(&elsewhere, folder.join(format!("s{suffix}"))).unwrap();
        let bound = Bound::new(&path, 0o660, None);
        assert_eq!(bound.is_ok(), suffix == ".new", "{suffix}");
        assert!(!elsewhere.exists(), "{suffix}");
        _ = fs::remove_file(folder.join(format!("s{suffix}")));
    }
    assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn groups_have_names_and_numbers() {
    assert_eq!(group_id("root").unwrap(), 0);
    assert_eq!(group_id("4711").unwrap(), 4_711);
    assert!(group_id("no-such-group").unwrap_err().to_string().contains("no-such-group"));
}

/// An answer that nobody can read does not count as received, whenever it comes.
#[tokio::test]
async fn an_output_counts_only_while_the_connection_is_open() {
    let (client, peer) = LocalPeer::pair();
    assert_eq!(peer.while_open(std::future::ready(1)).await, Some(1));
    let later = async {
        tokio::time::sleep(BRIEF * 4).await;
        2
    };
    assert_eq!(peer.while_open(later).await, Some(2));
    // The client hangs up before the output is ready: soon, and late.
    for pause in [BRIEF / 5, BRIEF * 4] {
        let (client, peer) = LocalPeer::pair();
        let (send, output) = tokio::sync::oneshot::channel::<()>();
        let hang_up = async move {
            tokio::time::sleep(pause).await;
            drop(client);
            _ = send.send(());
        };
        let (told, ()) = tokio::join!(peer.while_open(output), hang_up);
        assert_eq!(told, None, "{pause:?}");
    }
    drop(client);
    timeout(Duration::from_secs(60), async {
        assert_eq!(peer.while_open(std::future::pending::<()>()).await, None)
    })
    .await
    .unwrap();
}
