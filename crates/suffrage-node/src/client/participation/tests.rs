//! Participations at a node that answers as a test wants.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;

use super::*;

/// A node that lets every client lead, and refuses to set a value so many times.
struct FakeNode {
    path: std::path::PathBuf,
    refusals: Mutex<u32>,
    /// The values and their orders, as they came.
    values: Mutex<Vec<(String, u64)>>,
}

impl FakeNode {
    fn start(name: &str, refusals: u32) -> Arc<FakeNode> {
        let folder = std::env::temp_dir().join(format!("suffrage-client-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("node.sock");
        _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let node =
            Arc::new(FakeNode { path, refusals: Mutex::new(refusals), values: Mutex::new(Vec::new()) });
        let served = Arc::clone(&node);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let node = Arc::clone(&served);
                // A client that is gone is no failure of the node.
                std::thread::spawn(move || _ = node.serve(stream));
            }
        });
        node
    }

    fn serve(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut line, mut length) = (String::new(), 0);
        reader.read_line(&mut line)?;
        let path = line.split(' ').nth(1).unwrap_or_default().to_string();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if path.ends_with("/value") {
            let body: Value = serde_json::from_slice(&body)?;
            let refuses = {
                let mut left = self.refusals.lock().unwrap();
                let refuses = *left > 0;
                *left = left.saturating_sub(1);
                refuses
            };
            if refuses {
                return write!(stream, "HTTP/1.1 503 x\r\ncontent-length: 2\r\n\r\n{{}}");
            }
            let value = body["value"].as_str().unwrap().to_string();
            self.values.lock().unwrap().push((value, body["order"].as_u64().unwrap()));
            return write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{{}}");
        }
        write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
        if path.ends_with("/campaign") {
            let now = boottime().as_nanos();
            let event = json!({
                "event": "leading", "session": "77", "token": 5, "now_ns": now,
                "deadline_ns": now + 600_000_000_000u64, "watched": "process",
            });
            let line = format!("{event}\n");
            write!(stream, "{:x}\r\n{line}\r\n", line.len())?;
        }
        // Until the client is gone.
        reader.read_to_end(&mut Vec::new()).map(drop)
    }

    fn join(&self) -> ClientParticipation {
        let hold = HoldRequest { name: "x".to_string(), ttl: Span::from_millis(3_000), rank: 0, value: None };
        let config = ClientConfig { hold, stop_margin: Span::ZERO };
        ClientParticipation::join(&LocalNode::new(&self.path), config)
    }

    async fn await_value(&self, value: &str) -> Vec<(String, u64)> {
        let wait = async {
            loop {
                let values = self.values.lock().unwrap().clone();
                if values.last().is_some_and(|(last, _)| last == value) {
                    return values;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the node has the value in time")
    }
}

async fn lead(participation: &ClientParticipation) {
    tokio::time::timeout(Duration::from_secs(60), participation.next_lease()).await.unwrap().unwrap();
}

/// A node that cannot set the value for a while gets it in the end.
#[tokio::test]
async fn a_value_is_told_until_the_node_has_it() {
    let node = FakeNode::start("patience", 9);
    let participation = node.join();
    lead(&participation).await;
    participation.set_value(LeaseValue::new("first").ok());
    assert_eq!(node.await_value("first").await, [("first".to_string(), 1)]);
    participation.set_value(None);
    assert_eq!(node.await_value("").await.last(), Some(&(String::new(), 2)));
}

/// Many changes are not as many connections.
#[tokio::test]
async fn of_many_changes_at_once_the_node_hears_the_last() {
    let node = FakeNode::start("changes", 0);
    let participation = node.join();
    lead(&participation).await;
    for number in 0..1_000 {
        participation.set_value(LeaseValue::new(&number.to_string()).ok());
    }
    let values = node.await_value("999").await;
    assert!(values.len() < 100, "{} requests", values.len());
    assert!(values.is_sorted_by_key(|(_, order)| *order));
}
