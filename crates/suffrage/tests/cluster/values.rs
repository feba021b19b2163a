//! Values of leaders, as programs with the library set and see them.

use super::{Cluster, LONG};

#[tokio::test]
async fn a_watch_shows_the_value_of_the_leader_and_its_changes() {
    let cluster = Cluster::start().await;
    let election = cluster.nodes[0].election("x").ttl(LONG).value("10.0.0.1:80").join().await.unwrap();
    let leadership = election.lead().await.unwrap();
    assert_eq!(election.value().unwrap().as_str(), "10.0.0.1:80");
    let observer = cluster.nodes[2].election("x").join().await.unwrap();
    let mut watch = observer.watch();
    let mut shown = async |text: Option<&str>| {
        while watch.value().as_ref().map(|value| value.as_str()) != text {
            watch.changed().await.unwrap();
        }
        assert_eq!(watch.leader().unwrap().node, 1.into());
    };
    shown(Some("10.0.0.1:80")).await;
    let long = "x".repeat(4_096);
    leadership.set_value(&long).unwrap();
    shown(Some(&long)).await;
    leadership.set_value("").unwrap();
    shown(None).await;
    let refused = leadership.set_value("x".repeat(4_097)).unwrap_err().to_string();
    assert!(refused.contains("a value of 4097 bytes"), "{refused}");
    let refused =
        cluster.nodes[1].election("y").value("x".repeat(4_097)).join().await.unwrap_err().to_string();
    assert!(refused.contains("a value of 4097 bytes"), "{refused}");
}
