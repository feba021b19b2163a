//! Nodes that are configured by a file.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use suffrage::{Error, Keyring, NodeBuilder};

use super::soon;

/// A folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("suffrage-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test]
async fn a_node_reads_the_file_of_the_daemon() {
    let folder = folder("config-file");
    let (file, address) = (folder.join("suffrage.toml"), suffrage_testbed::address());
    Keyring::generate().unwrap().create(folder.join("keys")).unwrap();
    let text = format!(
        "id = 1\nvoters = [\"1=localhost:{port}\"]\nlisten = \"{address}\"\nkeys = {keys:?}\ndata = {data:?}\n\
         ttl = \"700ms\"\nlongest-ttl = \"2s\"\ndelay = \"5ms\"\ndrift = \"2%\"\nhttp = \"off\"\nlog = \"warn\"\n",
        port = address.port(),
        keys = folder.join("keys"),
        data = folder.join("data"),
    );
    fs::write(&file, &text).unwrap();
    let missing = NodeBuilder::from_file(&file).unwrap().start().await.unwrap_err();
    assert!(matches!(missing, Error::Storage(_)), "{missing}");
    let node = NodeBuilder::from_file(&file).unwrap().first_start().start().await.unwrap();
    assert_eq!(node.address(), address);
    let election = node.election("x").join().await.unwrap();
    let leadership = soon(election.lead()).await.unwrap();
    assert!(leadership.valid_for() <= Duration::from_millis(700), "the ttl of the file");
    let too_long = node.election("y").ttl(Duration::from_secs(3)).join().await.unwrap_err();
    assert!(matches!(too_long, Error::InvalidConfig(_)), "the longest ttl of the file: {too_long}");
    node.stop().await;
    soon(NodeBuilder::from_file(&file).unwrap().start()).await.unwrap().stop().await;
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_error_names_file_line_key_value_and_remedy() {
    let folder = folder("config-errors");
    let (file, keys) = (folder.join("suffrage.toml"), folder.join("keys"));
    let path = file.display().to_string();
    let errors = |text: String| {
        fs::write(&file, text).unwrap();
        NodeBuilder::from_file(&file).unwrap_err().to_string()
    };
    let valid = format!("id = 9\nvoters = [\"1=127.0.0.1:7400\"]\nkeys = {keys:?}\n");
    assert_eq!(
        errors(valid.replace("= 9", "= 0") + "ttl = \"soon\"\n"),
        format!(
            "{path}:1: id: `0` is not an id; an id is a whole number from 1\n\
             {path}:4: ttl: `soon` is not a time like 3s, 500ms or 1m"
        )
    );
    let unread = errors(valid.clone());
    assert!(unread.starts_with(&format!("{path}:3: keys: cannot read {}", keys.display())), "{unread}");
    fs::remove_file(&file).unwrap();
    let Err(Error::ConfigFile(error)) = NodeBuilder::from_file(&file) else { panic!("there is no file") };
    assert_eq!(error.problems().len(), 1);
    assert_eq!(
        (error.problems()[0].location.as_str(), error.problems()[0].key.as_str()),
        (path.as_str(), "")
    );
    fs::remove_dir_all(&folder).unwrap();
}
