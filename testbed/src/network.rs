//! Hosts and the switch between them.

use std::io::{Error, Result};
use std::net::Ipv4Addr;

use tappers::{Interface, Tap};

use crate::fabric::{LinkConditions, Tally, address};
use crate::leftovers;
use crate::namespace::{self, Namespace};
use crate::switch::Switch;

/// The most hosts of a network.
const MAX_HOSTS: usize = 200;

/// Hosts, numbered from 1, and a switch between them that starts without faults.
#[derive(Debug)]
pub struct Network {
    // Dropped before the hosts: the switch reads their devices.
    switch: Switch,
    hosts: Vec<Host>,
}

/// A host: a network namespace with one device.
#[derive(Debug)]
pub struct Host {
    address: Ipv4Addr,
    namespace: Namespace,
}

impl Host {
    /// The address of the host in the network.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Runs a closure in the network of the host and waits for it. Programs that it spawns and sockets that it opens
    /// belong to that network.
    ///
    /// # Panics
    /// If it panics.
    pub fn enter<R: Send>(&self, act: impl FnOnce() -> R + Send) -> R {
        self.namespace.enter(act).expect("a network can be entered as long as it exists")
    }
}

impl Network {
    /// Creates this number of hosts. The seed determines random choices of the switch.
    ///
    /// # Panics
    /// If there are too many hosts.
    pub fn new(count: usize, seed: u64) -> Result<Network> {
        assert!((1..=MAX_HOSTS).contains(&count), "{count} hosts; the number must be from 1 to {MAX_HOSTS}");
        namespace::remove_leftovers();
        let name = leftovers::name();
        let (mut hosts, mut taps) = (Vec::new(), Vec::new());
        for host in 1..=count {
            let namespace = Namespace::create(format!("{name}-{host}"))?;
            taps.push(namespace.enter(open_tap)??);
            namespace.set_up(&ip_commands(host, count))?;
            hosts.push(Host { address: ip(host), namespace });
        }
        Ok(Network { switch: Switch::start(taps, seed)?, hosts })
    }

    /// The host of this number.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number.checked_sub(1).expect("hosts are numbered from 1")]
    }

    /// Cuts the links between two groups of hosts, in both directions.
    pub fn cut(&self, one: &[usize], other: &[usize]) {
        let mut fabric = self.switch.fabric();
        fabric.cut(one, other);
        fabric.cut(other, one);
    }

    /// Cuts the links from `from` to `to`. The other direction stays.
    pub fn cut_one_way(&self, from: &[usize], to: &[usize]) {
        self.switch.fabric().cut(from, to);
    }

    /// Sets the conditions of the link from one host to another.
    pub fn set_conditions(&self, from: usize, to: usize, conditions: LinkConditions) {
        self.switch.fabric().set_conditions(from, to, conditions);
    }

    /// Sets the conditions of all links.
    pub fn set_conditions_everywhere(&self, conditions: LinkConditions) {
        let mut fabric = self.switch.fabric();
        for from in 1..=self.hosts.len() {
            for to in (1..=self.hosts.len()).filter(|to| *to != from) {
                fabric.set_conditions(from, to, conditions);
            }
        }
    }

    /// Ends all cuts, losses, delays and duplications.
    pub fn heal(&self) {
        self.switch.fabric().heal();
    }

    /// Counts of frames by fate.
    pub fn tally(&self) -> Tally {
        self.switch.fabric().tally()
    }
}

fn ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, host as u8)
}

/// Opens a TAP device in the network of the calling thread.
fn open_tap() -> Result<Tap> {
    let open = || {
        let mut tap = Tap::new_named(Interface::new("eth0")?)?;
        tap.set_nonblocking(true)?;
        Ok(tap)
    };
    open()
        .map_err(|error: Error| Error::new(error.kind(), format!("a TAP device from /dev/net/tun: {error}")))
}

/// The `ip` commands that set the addresses of a host. Neighbour entries are permanent, so that faults hit the traffic
/// of programs and not ARP, which would add variance.
fn ip_commands(host: usize, count: usize) -> String {
    let hardware = |host: usize| address(host).map(|byte| format!("{byte:02x}")).join(":");
    let mut lines = format!(
        "link set dev lo up\n\
         link set dev eth0 address {} addrgenmode none\n\
         link set dev eth0 up\n\
         address add {}/24 dev eth0\n",
        hardware(host),
        ip(host)
    );
    for other in (1..=count).filter(|other| *other != host) {
        lines +=
            &format!("neighbour replace {} lladdr {} nud permanent dev eth0\n", ip(other), hardware(other));
    }
    lines
}
