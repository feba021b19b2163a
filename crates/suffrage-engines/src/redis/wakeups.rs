//! Messages of the server, which wake candidates and observers.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::client::{Link, lock, read_replies};
use super::resp::{self, Value};
use crate::transport::Connection;
use crate::waiting::Changes;

/// How long a connection may take to open, where no candidate says otherwise.
const OPEN: Duration = Duration::from_secs(1);
/// The pause before the connection of notifications is opened again.
const REOPEN: Duration = Duration::from_millis(200);
/// The pause if the server refuses to send notifications.
const REFUSED: Duration = Duration::from_secs(10);
/// A connection of notifications that is silent this long is asked.
const SILENCE: Duration = Duration::from_secs(5);

/// Wakes tasks by messages of the server, over a connection of its own.
pub(super) struct Wakeups {
    link: Arc<Link>,
    state: Mutex<WakeupState>,
}

#[derive(Default)]
struct WakeupState {
    /// The channels of keys that somebody waits for: of resignations, and of the server's notifications about keys.
    channels: BTreeMap<String, Arc<watch::Sender<Changes>>>,
    /// Channels to subscribe to. None: no connection is open.
    commands: Option<mpsc::UnboundedSender<Vec<u8>>>,
    running: bool,
}

/// The task that listens. If its runtime is shut down, the next subscription starts another.
struct Listener {
    wakeups: Arc<Wakeups>,
    finished: bool,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.finished {
            let mut state = lock(&self.wakeups.state);
            (state.running, state.commands) = (false, None);
        }
    }
}

impl Listener {
    /// Listens while somebody waits.
    async fn run(mut self) {
        loop {
            let mut pause = REOPEN;
            if let Some(connection) = self.wakeups.connect().await {
                let refused = self.wakeups.hear(connection).await;
                pause = if refused { REFUSED } else { REOPEN };
            }
            {
                let mut state = lock(&self.wakeups.state);
                state.commands = None;
                state.channels.retain(|_, sender| sender.receiver_count() > 0);
                if state.channels.is_empty() {
                    // Under the lock: nobody relies on this task any more.
                    (state.running, self.finished) = (false, true);
                    return;
                }
                // Messages were missed.
                state.channels.values().for_each(|sender| sender.send_modify(|known| known.count(true)));
            }
            sleep(pause).await;
        }
    }
}

impl Wakeups {
    pub(super) fn new(link: Arc<Link>) -> Wakeups {
        Wakeups { link, state: Mutex::default() }
    }

    /// Counts the changes of a key.
    pub(super) fn subscribe(self: &Arc<Self>, key: &str) -> watch::Receiver<Changes> {
        let channels = self.channels_of(key);
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut state.running, true) {
            tokio::spawn(Listener { wakeups: Arc::clone(self), finished: false }.run());
        }
        if let Some(sender) = state.channels.get(&channels[0]) {
            return sender.subscribe();
        }
        let sender = Arc::new(watch::Sender::default());
        let receiver = sender.subscribe();
        for channel in &channels {
            state.channels.insert(channel.clone(), Arc::clone(&sender));
        }
        if let Some(commands) = &state.commands {
            // An error: the connection is opened again, with all channels.
            _ = commands.send(resp::request(&["SUBSCRIBE", &channels[0], &channels[1]]));
        }
        receiver
    }

    /// The channel that candidates of ours publish to, and the one of the server's notifications.
    fn channels_of(&self, key: &str) -> [String; 2] {
        [channel(key), format!("__keyspace@{}__:{key}", self.link.settings.database)]
    }

    /// A connection to the server that serves requests.
    async fn connect(&self) -> Option<Connection> {
        self.link.client(OPEN).await.ok()?;
        let index = self.link.host.load(Ordering::Relaxed) % self.link.settings.hosts.len();
        timeout(OPEN, self.link.open(index)).await.ok()?.ok()
    }

    /// Hears messages until the connection ends. True if the server refuses to send any.
    async fn hear(&self, connection: Connection) -> bool {
        let (mut reader, mut writer) = tokio::io::split(connection);
        let (sender, mut commands) = mpsc::unbounded_channel();
        let mut hello: Vec<u8> = self.link.greeting().iter().flat_map(|words| resp::request(words)).collect();
        {
            let mut state = lock(&self.state);
            for channel in state.channels.keys() {
                hello.extend(resp::request(&["SUBSCRIBE", channel]));
            }
            state.commands = Some(sender);
        }
        let (heard, mut sign) = watch::channel(());
        let mut refused = false;
        let read = read_replies(&mut reader, |value| {
            heard.send_replace(());
            self.handle(&value);
            refused = matches!(value, Value::Error(_));
            !refused
        });
        let write = async {
            let mut bytes = hello;
            loop {
                if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                    return;
                }
                bytes = match timeout(SILENCE, commands.recv()).await {
                    Ok(Some(bytes)) => bytes,
                    Ok(None) => return,
                    Err(_) => match self.tidy() {
                        Some(bytes) => bytes,
                        None => return,
                    },
                };
            }
        };
        // A silent connection is asked, and given up if it does not answer.
        let watchdog =
            async { while timeout(SILENCE * 2, sign.changed()).await.is_ok_and(|sign| sign.is_ok()) {} };
        tokio::select! {
            () = read => {}
            () = write => {}
            () = watchdog => {}
        }
        refused
    }

    /// Unsubscribes from channels that nobody waits for, and asks for a sign of life. None: there is no channel left.
    fn tidy(&self) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        let mut bytes = resp::request(&["PING"]);
        state.channels.retain(|channel, sender| {
            let wanted = sender.receiver_count() > 0;
            if !wanted {
                bytes.extend(resp::request(&["UNSUBSCRIBE", channel]));
            }
            wanted
        });
        (!state.channels.is_empty()).then_some(bytes)
    }

    fn handle(&self, value: &Value) {
        let Value::Array(words) = value else { return };
        match words.as_slice() {
            // Renewals wake nobody. Others do: `released` of ours; `del` and `expired` of the server.
            [Value::Text(kind), Value::Text(channel), Value::Text(event)]
                if kind == "message" && !matches!(event.as_str(), "expire" | "pexpire") =>
            {
                self.wake(channel, !matches!(event.as_str(), "acquired" | "set"));
            }
            // Messages before the subscription were missed.
            [Value::Text(kind), Value::Text(channel), Value::Int(_)] if kind == "subscribe" => {
                self.wake(channel, true);
            }
            _ => {}
        }
    }

    fn wake(&self, channel: &str, released: bool) {
        if let Some(sender) = lock(&self.state).channels.get(channel) {
            sender.send_modify(|known| known.count(released));
        }
    }
}

/// The channel that scripts publish to when the holder of a key changes.
pub(super) fn channel(key: &str) -> String {
    format!("suffrage:{key}")
}
