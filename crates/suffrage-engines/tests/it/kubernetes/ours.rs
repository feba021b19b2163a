//! What only Kubernetes has: users, roles, and how we use the Lease.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use suffrage_engines::{Clock as _, Engine, Error, Leadership};
use suffrage_servers::Servers as _;
use suffrage_servers::kubernetes::Body;
use tokio::time::sleep;

use super::wire::seal;
use super::{Kubernetes, Leases as _, start};
use crate::conformance::within;
use crate::support::BootClock;

async fn lead(engine: &Engine, name: &str, ttl: Duration, identity: &str) -> Result<Leadership, Error> {
    let election = engine.election(name).ttl(ttl).identity(identity).join().unwrap();
    within("a leadership", election.lead()).await
}

fn engine(servers: &Kubernetes, user: &Value) -> Engine {
    Engine::connect(&servers.url_of_user(user), BootClock).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_and_a_token_file_authenticate() {
    let servers = start().await;
    let user = json!({ "client-certificate": "client.crt", "client-key": "client.key" });
    lead(&engine(&servers, &user), "certificate", servers.ttl(), "me").await.unwrap().resign().await;

    // The token is replaced, and for a moment it is wrong.
    let file = servers.cluster.path(&format!("token-{}", servers.namespace));
    std::fs::write(&file, "admin-token\n").unwrap();
    let ours = engine(&servers, &json!({ "tokenFile": file }));
    let ttl = Duration::from_secs(30);
    let leader = lead(&ours, "token", ttl, "me").await.unwrap();
    std::fs::write(&file, "no-such-token").unwrap();
    within("the token is refused", async {
        while !matches!(ours.status("token").await, Err(Error::Unavailable { .. })) {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    std::fs::write(&file, "admin-token").unwrap();
    within("the token is accepted", async {
        while ours.status("token").await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(leader.is_valid());
    leader.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_and_missing_permissions_are_refused_with_what_to_do() {
    let servers = start().await;
    let wrong = lead(&engine(&servers, &json!({ "token": "secret-word" })), "x", servers.ttl(), "me").await;
    let wrong = wrong.unwrap_err();
    assert!(matches!(wrong, Error::Refused { .. }), "{wrong}");
    assert!(!wrong.to_string().contains("secret-word"));
    let nobody = engine(&servers, &json!({ "token": "nobody-token" }));
    let refused = lead(&nobody, "x", servers.ttl(), "me").await.unwrap_err().to_string();
    assert!(refused.contains("the role needs get, create, update, list and watch of leases"), "{refused}");
    let url = servers.url(&servers.addresses()).replace(&servers.namespace, "no-such-namespace");
    let missing = Engine::connect(&url, BootClock).unwrap();
    let refused = lead(&missing, "x", servers.ttl(), "me").await.unwrap_err().to_string();
    assert!(refused.contains("no-such-namespace"), "{refused}");
    let name = missing.election("Not_A_Name").join().unwrap_err().to_string();
    assert!(name.contains("cannot name a Lease `Not_A_Name`"), "{name}");
}

/// A role without `list` and `watch`, as many have it who use client-go: the candidate reads the Lease once a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_watch_suffices() {
    let servers = start().await;
    let rules = json!([{
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"],
    }]);
    let role = json!({ "metadata": { "name": "limited" }, "rules": rules });
    let binding = json!({
        "metadata": { "name": "limited" },
        "subjects": [{ "kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "kind": "Role", "name": "limited", "apiGroup": "rbac.authorization.k8s.io" },
    });
    let base = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", servers.namespace);
    for (kind, object) in [("roles", role), ("rolebindings", binding)] {
        servers.cluster.create(&format!("{base}/{kind}"), &object);
    }
    let limited = engine(&servers, &json!({ "token": "limited-token" }));
    let election = limited.election("limited").ttl(servers.ttl()).join().unwrap();
    // The role takes effect a little later.
    let leader = within("the role", async {
        loop {
            match election.lead().await {
                Ok(leader) => return leader,
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    })
    .await;
    let start = BootClock.now();
    let next = {
        let (limited, ttl) = (limited.clone(), servers.ttl());
        tokio::spawn(async move { lead(&limited, "limited", ttl, "next").await })
    };
    within("two ttl", async {
        while BootClock.now() < start + servers.ttl() * 2 {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(leader.is_valid() && !next.is_finished());
    let token = leader.token();
    leader.resign().await;
    assert!(within("the next leads", next).await.unwrap().unwrap().token() > token);
}

/// A pod: the address in the environment, and a folder with the token, the certificate and the namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_uses_its_service_account() {
    let servers = start().await;
    let account = servers.cluster.path(&format!("account-{}", servers.namespace));
    std::fs::create_dir(&account).unwrap();
    std::fs::copy(servers.cluster.path("ca.crt"), account.join("ca.crt")).unwrap();
    std::fs::write(account.join("token"), "admin-token").unwrap();
    std::fs::write(account.join("namespace"), &servers.namespace).unwrap();
    let address = servers.cluster.address;
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().and_then(std::path::Path::parent).unwrap();
    let mut command = Command::new(folder.join("examples/candidate"));
    command.env("KUBERNETES_SERVICE_HOST", address.ip().to_string());
    command.env("KUBERNETES_SERVICE_PORT", address.port().to_string());
    command
        .arg(format!("kubernetes://?service-account={}", account.display()))
        .args(["pod", "4000", "in a pod"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let _pod = suffrage_servers::Server(child.expect("`cargo build --examples` makes it"));
    let observer = engine(&servers, &json!({ "token": "admin-token" }));
    let mut watch = observer.watch("pod");
    let leader = within("the pod leads", watch.changed()).await.unwrap().unwrap();
    assert_eq!(leader.identity, "in a pod");
}

/// Two candidates of the same identity are two candidates. One who was restarted waits for its own former lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidates_of_one_identity_do_not_lead_together() {
    let servers = start().await;
    let user = json!({ "token": "admin-token" });
    let first = lead(&engine(&servers, &user), "twins", servers.ttl(), "twin").await.unwrap();
    let (other, ttl) = (engine(&servers, &user), servers.ttl());
    let second = tokio::spawn(async move { lead(&other, "twins", ttl, "twin").await });
    sleep(servers.ttl() * 2).await;
    assert!(first.is_valid() && !second.is_finished());
    let token = first.token();
    first.resign().await;
    assert!(within("the twin leads", second).await.unwrap().unwrap().token() > token);
}

/// Somebody edits the Lease: the leader goes on, and keeps the edit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_lease_stays_ours() {
    let servers = start().await;
    let ours = engine(&servers, &json!({ "token": "admin-token" }));
    let leader = lead(&ours, "edited", servers.ttl(), "me").await.unwrap();
    let token = leader.token();
    let path = format!("{}/edited", servers.path());
    tokio::task::block_in_place(|| {
        loop {
            let mut lease = servers.lease("edited");
            let mut metadata = lease.message(1);
            metadata.set_entry(11, "team", Some("a"));
            lease.set_message(1, &metadata);
            let bytes = seal("coordination.k8s.io/v1", "Lease", &lease);
            if servers.cluster.curl("PUT", &path, Some(Body::Object(&bytes))).0 == 200 {
                return;
            }
        }
    });
    sleep(servers.ttl() * 2).await;
    assert!(leader.is_valid() && leader.token() == token, "{:?}", leader.loss());
    let label = servers.lease("edited").message(1).messages(11).next().expect("a label");
    assert_eq!((label.text(1), label.text(2)), ("team", "a"));
    assert_eq!(ours.status("edited").await.unwrap().leader.unwrap().token, token);
    leader.resign().await;
}

/// A holder that is gone is still named, with a remark.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_remarks_that_a_holder_is_gone() {
    let servers = start().await;
    let object = json!({
        "metadata": { "name": "gone" },
        "spec": {
            "holderIdentity": "theirs", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z",
        },
    });
    servers.cluster.create(&servers.path(), &object);
    let found = engine(&servers, &json!({ "token": "admin-token" })).status("gone").await.unwrap();
    assert_eq!(found.leader.unwrap().identity, "theirs");
    assert!(found.remarks[0].contains("the holder is gone"), "{:?}", found.remarks);
}
