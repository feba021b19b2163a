//! The Unix socket of a node, for clients of its machine.
//!
//! **Who is on the other side.** The kernel knows the process that opened a connection (`SO_PEERCRED`). A [`Watch`] waits
//! for two events, whichever is first, and each of them proves that the client has given up, if nobody else acts on its
//! connection (a proxy, or a child that calls `shutdown`: the client's contract forbids it):
//!
//! - *The process has exited*: its pidfd is readable. A child that has inherited the socket does not keep the session.
//! - *The connection is closed in both directions at the client's end*: the socket reports `EPOLLHUP`. That is a `close` of
//!   the last copy of the socket, or a `shutdown(SHUT_RDWR)`. A half-closed connection (`EPOLLRDHUP`, end of file) is not
//!   such an event: the client still reads, and may rely on what it reads. This program never shuts a direction down
//!   itself ([`LocalStream`]), or it could not tell its own act from the client's.
//!
//! The pidfd is opened when the client asks to lead. If the number of the process belongs to another process by then, the
//! first one is dead. Watching a wrong process therefore costs time at most, never safety.
//!
//! A process that this one cannot see (in another pid namespace the kernel gives its number as 0), or a kernel without
//! pidfds (before Linux 5.3): the connection alone is watched, and the client is told so. A child that has inherited the
//! socket then keeps the session.
//!
//! **The file.** A lock file beside the socket, which is held as long as the node runs, decides which node has the path. A
//! socket that nobody listens on is replaced; anything else at the path is an error. The new socket gets its permissions
//! before it listens, and listens before it appears at the path.

use std::fs::{self, File, OpenOptions};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown,
};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::warn;

use super::SHUTDOWN_TIMEOUT;
use super::serve::{Handlers, Limits, serve};
use super::stream::Listener;
use suffrage_node::Error;
use suffrage_node::config::{Config, LocalSocket};

/// The time after which a connection is registered with the runtime, if its answer has not come.
const BRIEF: Duration = Duration::from_millis(5);
/// As many connections wait to be accepted as the system allows.
const LONGEST_BACKLOG: i32 = -1;

/// The server of the Unix socket.
#[derive(Debug)]
pub(super) struct Local {
    path: PathBuf,
    shut_down: watch::Sender<bool>,
    server: JoinHandle<()>,
    /// Held while the path is in use.
    _lock: File,
}

/// A socket that listens at its path.
pub(super) struct Bound {
    path: PathBuf,
    listener: UnixListener,
    lock: File,
}

impl Local {
    /// Binds the socket, if there is to be one.
    pub(super) fn bind(config: &Config) -> Result<Option<Bound>, Error> {
        let (path, usual) = match &config.socket {
            LocalSocket::Off => return Ok(None),
            LocalSocket::At(path) => (path.clone(), false),
            LocalSocket::Usual => (PathBuf::from(LocalSocket::USUAL), true),
        };
        if usual && !path.parent().is_some_and(Path::is_dir) {
            return Ok(None);
        }
        let failed =
            |source| Error::System { doing: format!("listen on the socket {}", path.display()), source };
        match Bound::new(&path, config.socket_mode, config.socket_group.as_deref()) {
            Ok(bound) => Ok(Some(bound)),
            // Several nodes on one machine: the first has the usual path.
            Err(error) if usual => {
                warn!("this node serves no Unix socket: {}: {error}; set `socket`", path.display());
                Ok(None)
            }
            Err(error) => Err(config.at("socket")(failed(error))),
        }
    }

    pub(super) fn start(bound: Bound, handlers: Arc<dyn Handlers>) -> Local {
        let Bound { path, listener, lock } = bound;
        let (shut_down, shutdown) = watch::channel(false);
        let server =
            suffrage_node::spawn(serve(Listener::Local(listener), handlers, Limits::of_local(), shutdown));
        Local { path, shut_down, server, _lock: lock }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Finishes the open requests, within a limit of time, and removes the socket.
    pub(super) async fn stop(mut self) {
        // An error means that the server is gone.
        _ = self.shut_down.send(true);
        if timeout(SHUTDOWN_TIMEOUT, &mut self.server).await.is_err() {
            self.server.abort();
        }
        // The lock is held: nobody else has bound the path.
        _ = fs::remove_file(&self.path);
    }

    /// Ends at once, as a crash would. The file stays.
    pub(super) fn abort(self) {
        self.server.abort();
    }
}

impl Bound {
    fn new(path: &Path, mode: u32, group: Option<&str>) -> io::Result<Bound> {
        let group = group.map(group_id).transpose()?;
        let beside = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let mut options = OpenOptions::new();
        // A link that somebody has put there must not make this node create a file elsewhere.
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(beside(".lock"))?;
        let taken = || {
            io::Error::new(io::ErrorKind::AddrInUse, "another node listens on it: set another path, or `off`")
        };
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| taken())?;
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                let error = "it exists and is no socket: remove it, or set another path";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, error));
            }
            // A program that does not use the lock.
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => return Err(taken()),
            _ => {}
        }
        let fresh = beside(".new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(&fresh)?)?;
        // The service unit forbids the system call, which is not needed for the node's own group.
        if group.is_some_and(|group| fs::symlink_metadata(&fresh).is_ok_and(|file| file.gid() != group)) {
            lchown(&fresh, None, group)?;
        }
        fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
        // Nobody can connect before: the file of a socket has the permissions that the umask leaves.
        listen(&socket, LONGEST_BACKLOG)?;
        let listener = UnixListener::from_std(socket.into())?;
        fs::rename(&fresh, path)?;
        Ok(Bound { path: path.to_path_buf(), listener, lock })
    }
}

/// The number of a group.
fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group")?;
    let number = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("there is no group `{group}`"));
    groups.lines().find_map(number).ok_or_else(unknown)
}

/// A connection. It is never shut down in one direction: dropping it closes it.
pub(super) struct LocalStream(Arc<UnixStream>);

impl LocalStream {
    /// A connection, and the other side of it.
    pub(super) fn new(stream: UnixStream) -> (LocalStream, LocalPeer) {
        let stream = Arc::new(stream);
        (LocalStream(Arc::clone(&stream)), LocalPeer(stream))
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read_buf(buffer) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The other side of a connection of the Unix socket. Requests of such connections have it as an extension.
#[derive(Clone, Debug)]
pub(super) struct LocalPeer(Arc<UnixStream>);

impl LocalPeer {
    /// Whether the process that opened the connection was of root or of the user of this node.
    pub(super) fn is_operator(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.0.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
    }

    /// Watches the client from now on. An error if it has given up already.
    pub(super) fn watch(&self) -> io::Result<Watch> {
        // 0 is the number of a process that is not visible here.
        let process = self.0.peer_cred()?.pid().and_then(Pid::from_raw);
        let process = process.map(pidfd).transpose()?.flatten();
        let process = process.map(|process| register(process, Interest::READABLE)).transpose()?;
        let watch = Watch { socket: self.watched_socket()?, process };
        if watch.is_gone() { Err(Errno::SRCH.into()) } else { Ok(watch) }
    }

    /// Waits until the connection is closed in both directions at the client's end: nobody can read an answer any more.
    pub(super) async fn closed(&self) {
        // The answer then fails.
        let Ok(socket) = self.watched_socket() else { return std::future::pending().await };
        Watch { socket, process: None }.closed().await;
    }

    /// Whether the connection is closed in both directions at the client's end by now.
    pub(super) fn is_closed(&self) -> bool {
        poll_now(&mut [PollFd::new(&self.0, PollFlags::empty())])[0].revents().contains(PollFlags::HUP)
    }

    /// The output of a future. None if the connection is closed before the future is ready, or when it is: nobody can read
    /// the output.
    pub(super) async fn while_open<F: Future>(&self, future: F) -> Option<F::Output> {
        let (mut future, mut begun) = (pin!(future), false);
        let brief = poll_fn(|cx| {
            if begun && self.is_closed() {
                return Poll::Ready(None);
            }
            begun = true;
            future.as_mut().poll(cx).map(Some)
        });
        // Most outputs come at once. To register a file descriptor costs more than to look again.
        if let Ok(output) = timeout(BRIEF, brief).await {
            return output;
        }
        tokio::select! {
            biased;
            () = self.closed() => None,
            output = future => Some(output),
        }
    }

    /// A copy with a registration of its own: it does not disturb the reads and writes of the connection.
    fn watched_socket(&self) -> io::Result<AsyncFd<OwnedFd>> {
        register(self.0.as_fd().try_clone_to_owned()?, Interest::WRITABLE)
    }
}

/// What the kernel says of these file descriptors now.
fn poll_now<'e, 'f>(events: &'e mut [PollFd<'f>]) -> &'e [PollFd<'f>] {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Interrupted: try again.
    while poll(events, Some(&now)) == Err(Errno::INTR) {}
    events
}

/// A pidfd of a process; none if this system cannot watch processes. An error if the process is dead. A dead process whose
/// number belongs to a thread now is no process either.
fn pidfd(process: Pid) -> io::Result<Option<OwnedFd>> {
    match pidfd_open(process, PidfdFlags::empty()) {
        Ok(process) => Ok(Some(process)),
        // An old kernel, or a filter of system calls.
        Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Has the runtime watch a file descriptor.
#[expect(
    deprecated,
    reason = "the successor is unsafe because a type may close its descriptor early; an OwnedFd does not"
)]
fn register(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// The watch of a client's process and connection. It keeps the connection open until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    socket: AsyncFd<OwnedFd>,
    process: Option<AsyncFd<OwnedFd>>,
}

impl Watch {
    /// Whether the process is watched, besides the connection.
    pub(super) fn watches_process(&self) -> bool {
        self.process.is_some()
    }

    /// Waits until the client has given up: its process has exited, or the connection is closed in both directions.
    pub(super) async fn gone(&self) {
        tokio::select! {
            () = self.closed() => {}
            () = self.exited() => {}
        }
    }

    /// Whether the client has given up already.
    pub(super) fn is_gone(&self) -> bool {
        let mut events = vec![PollFd::new(&self.socket, PollFlags::empty())];
        events.extend(self.process.as_ref().map(|process| PollFd::new(process, PollFlags::IN)));
        let events = poll_now(&mut events);
        events[0].revents().contains(PollFlags::HUP)
            || events.get(1).is_some_and(|process| process.revents().contains(PollFlags::IN))
    }

    async fn closed(&self) {
        loop {
            // Without readiness there is no runtime any more.
            let Ok(mut ready) = self.socket.writable().await else { return std::future::pending().await };
            if ready.ready().is_write_closed() {
                // Without a hang-up it is an error, which stays.
                return if !self.is_gone() {
                    std::future::pending().await
                };
            }
            ready.clear_ready();
        }
    }

    async fn exited(&self) {
        let Some(process) = &self.process else { return std::future::pending().await };
        loop {
            let Ok(mut ready) = process.readable().await else { return std::future::pending().await };
            // Readiness of the runtime may be spurious. What the kernel says now is not.
            if self.is_gone() {
                return;
            }
            ready.clear_ready();
        }
    }
}

#[cfg(test)]
mod tests;
