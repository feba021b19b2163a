//! What each engine promises and what it cannot do, as data.

use std::time::Duration;

/// The facts about one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The scheme of its URLs.
    pub scheme: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether this build contains it.
    pub compiled: bool,
    /// What the fencing token is.
    pub token: &'static str,
    /// From when on and how long a leadership is valid.
    pub validity: &'static str,
    /// The shortest ttl.
    pub shortest_ttl: Duration,
    /// Whether lengths of leases are rounded up to whole seconds.
    pub whole_seconds: bool,
    /// What a fail-over of the engine itself can lose.
    pub failover: &'static str,
    /// The requests of a held election to the engine, per ttl.
    pub load: &'static str,
    /// The clients of others that take part in the same election.
    pub recipe: &'static str,
}

/// The facts about all engines, in the order of the documents.
pub const FACTS: [Facts; 7] = [ETCD, POSTGRES, KUBERNETES, CONSUL, ZOOKEEPER, NATS, REDIS];

pub(crate) const ETCD: Facts = Facts {
    scheme: "etcd",
    name: "etcd",
    compiled: cfg!(feature = "etcd"),
    token: "create revision of the leader's key",
    validity: "from before the renewal was sent, for the ttl that etcd has granted",
    shortest_ttl: Duration::from_secs(2),
    whole_seconds: true,
    failover: "nothing; leases are extended by the new server leader",
    load: "3 renewals per ttl on one stream, each with a read, which up to 100 elections share",
    recipe: "concurrency.Election: etcdctl elect and lock, Go, Java and Python clients",
};

pub(crate) const POSTGRES: Facts = Facts {
    scheme: "postgres",
    name: "PostgreSQL",
    compiled: cfg!(feature = "postgres"),
    token: "counter in the row of the election, at least the server's time in milliseconds",
    validity: "from before the update was sent, for the ttl",
    shortest_ttl: Duration::from_millis(500),
    whole_seconds: false,
    failover: "leases, unless the standby is synchronous: two leaders; tokens grow if the servers' clocks agree",
    load: "3 updates per ttl, those of many elections in one statement",
    recipe: "a row of its own table; with ?advisory=KEY also an advisory lock that other clients take",
};

pub(crate) const KUBERNETES: Facts = Facts {
    scheme: "kubernetes",
    name: "Kubernetes",
    compiled: cfg!(feature = "kubernetes"),
    token: "resourceVersion of the write that acquired the Lease",
    validity: "from before the write was sent, for leaseDurationSeconds or the shortest duration of other clients",
    shortest_ttl: Duration::from_secs(2),
    whole_seconds: true,
    failover: "nothing; the API server stores in etcd",
    load: "3 writes per ttl (one per second at most), one watch for all elections",
    recipe: "coordination.k8s.io Lease: client-go's leaderelection",
};

pub(crate) const CONSUL: Facts = Facts {
    scheme: "consul",
    name: "Consul",
    compiled: cfg!(feature = "consul"),
    token: "ModifyIndex of the key after it was acquired",
    validity: "from before the renewal was sent, for the ttl of the session, 60 s at most",
    shortest_ttl: Duration::from_secs(10),
    whole_seconds: true,
    failover: "nothing; the new server leader starts the ttl of sessions again",
    load: "3 renewals per ttl, one blocking query for all elections",
    recipe: "consul lock and the lock of the Go client",
};

pub(crate) const ZOOKEEPER: Facts = Facts {
    scheme: "zookeeper",
    name: "ZooKeeper",
    compiled: cfg!(feature = "zookeeper"),
    token: "czxid of the leader's node",
    validity: "from before the session was last validated by the leading server, for the session time-out",
    // The servers grant two ticks or more: 4 s by default.
    shortest_ttl: Duration::from_millis(500),
    whole_seconds: false,
    failover: "nothing; the new server leader starts the time-outs of sessions again",
    load: "4 connections and transactions per ttl for all elections of a process together, one watch per election",
    recipe: "Curator LeaderLatch and LeaderSelector, kazoo Election: one recipe per election",
};

pub(crate) const NATS: Facts = Facts {
    scheme: "nats",
    name: "NATS",
    compiled: cfg!(feature = "nats"),
    token: "revision of the key's first write by the leader",
    validity: "from before the write was sent, for the max-age of the bucket, minus the skew of the servers' wall clocks",
    shortest_ttl: Duration::from_secs(1),
    whole_seconds: false,
    failover: "nothing with 3 replicas; with 1 replica the bucket",
    load: "3 writes per ttl; one consumer per process",
    recipe: "a key of a JetStream KV bucket, created by `create` and renewed by `update`",
};

pub(crate) const REDIS: Facts = Facts {
    scheme: "redis",
    name: "Redis",
    compiled: cfg!(feature = "redis"),
    token: "counter beside the key, at least the server's time in milliseconds",
    validity: "from before the command was sent, for PX minus 1% and 2 ms",
    shortest_ttl: Duration::from_millis(200),
    whole_seconds: false,
    failover: "the lock: two leaders; tokens grow if the servers' clocks agree",
    load: "3 scripts per ttl",
    recipe: "SET NX PX with a random value: Redlock clients with one server",
};
