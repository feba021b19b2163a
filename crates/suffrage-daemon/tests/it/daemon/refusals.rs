//! Errors at the start of a daemon.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use suffrage_daemon::daemon::Daemon;

use crate::daemon::Cluster;

async fn refuses(cluster: &Cluster, id: u64, new: bool) -> String {
    match Daemon::start(&cluster.config(id, &[]), new).await {
        Ok(_) => panic!("it starts"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_daemon_does_not_start_without_its_state_nor_with_keys_that_others_can_read() {
    let mut cluster = Cluster::start().await;
    let in_use = refuses(&cluster, 1, false).await;
    assert!(in_use.contains("in use by another process"), "{in_use}");
    cluster.daemons[0].take().unwrap().stop().await;
    let again = refuses(&cluster, 1, true).await;
    assert!(again.contains("is the data folder of a node already"), "{again}");
    fs::set_permissions(cluster.keys(1), fs::Permissions::from_mode(0o640)).unwrap();
    let exposed = refuses(&cluster, 1, false).await;
    assert!(exposed.contains("mode 640") && exposed.contains("chmod 600"), "{exposed}");
    fs::set_permissions(cluster.keys(1), fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(cluster.folder().join("data-1"), cluster.folder().join("elsewhere")).unwrap();
    let lost = refuses(&cluster, 1, false).await;
    assert!(lost.contains("is not the data folder of a node"), "{lost}");
    fs::rename(cluster.folder().join("elsewhere"), cluster.folder().join("data-1")).unwrap();
    let restarted = Daemon::start(&cluster.config(1, &[]), false).await.unwrap();
    restarted.stop().await;
    fs::remove_file(cluster.keys(1)).unwrap();
    assert!(refuses(&cluster, 1, false).await.contains("cannot read"));
}
