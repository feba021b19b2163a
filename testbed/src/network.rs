//! Hosts, and the switch between them.

use std::io::{Error, Result};
use std::net::Ipv4Addr;

use tappers::{Interface, Tap};

use crate::fabric::{Tally, Weather, address};
use crate::leftovers;
use crate::namespace::{self, Namespace};
use crate::switch::Switch;

/// The most hosts there can be.
const MOST: usize = 200;

/// Hosts that are numbered from 1, and a switch between them that starts without faults.
#[derive(Debug)]
pub struct Network {
    // Before the hosts, whose devices it reads.
    switch: Switch,
    hosts: Vec<Host>,
}

/// A host: a network of its own with one device.
#[derive(Debug)]
pub struct Host {
    address: Ipv4Addr,
    namespace: Namespace,
}

impl Host {
    /// Where it is, for the other hosts.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Does something in the host's network, and waits for it. Programs that are spawned there, and sockets that
    /// are opened there, stay there.
    ///
    /// # Panics
    /// If it panics.
    pub fn enter<R: Send>(&self, act: impl FnOnce() -> R + Send) -> R {
        self.namespace.enter(act).expect("a network can be entered as long as it exists")
    }
}

impl Network {
    /// Makes so many hosts. Chance is decided by the seed.
    ///
    /// # Panics
    /// If that many do not fit.
    pub fn new(count: usize, seed: u64) -> Result<Network> {
        assert!((1..=MOST).contains(&count), "{count} hosts: there can be 1 to {MOST}");
        namespace::sweep();
        let name = leftovers::name();
        let (mut hosts, mut taps) = (Vec::new(), Vec::new());
        for host in 1..=count {
            let namespace = Namespace::create(format!("{name}-{host}"))?;
            taps.push(namespace.enter(open)??);
            namespace.set_up(&lines(host, count))?;
            hosts.push(Host { address: ip(host), namespace });
        }
        Ok(Network { switch: Switch::start(taps, seed)?, hosts })
    }

    /// The host of this number.
    ///
    /// # Panics
    /// If there is none.
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number.checked_sub(1).expect("hosts are numbered from 1")]
    }

    /// Cuts these hosts off from those, both ways.
    pub fn cut(&self, these: &[usize], those: &[usize]) {
        let mut fabric = self.switch.fabric();
        fabric.cut(these, those);
        fabric.cut(those, these);
    }

    /// Nothing that any of `from` sends reaches any of `to`. The other way goes on.
    pub fn cut_one_way(&self, from: &[usize], to: &[usize]) {
        self.switch.fabric().cut(from, to);
    }

    /// How it is from one host to another.
    pub fn set_weather(&self, from: usize, to: usize, weather: Weather) {
        self.switch.fabric().set_weather(from, to, weather);
    }

    /// How it is from everybody to everybody.
    pub fn set_weather_everywhere(&self, weather: Weather) {
        let mut fabric = self.switch.fabric();
        for from in 1..=self.hosts.len() {
            for to in (1..=self.hosts.len()).filter(|to| *to != from) {
                fabric.set_weather(from, to, weather);
            }
        }
    }

    /// Nothing is cut, lost, late or doubled any more.
    pub fn heal(&self) {
        self.switch.fabric().heal();
    }

    /// What has become of frames.
    pub fn tally(&self) -> Tally {
        self.switch.fabric().tally()
    }
}

fn ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, host as u8)
}

/// A device of the network this is called in.
fn open() -> Result<Tap> {
    let open = || {
        let mut tap = Tap::new_named(Interface::new("eth0")?)?;
        tap.set_nonblocking(true)?;
        Ok(tap)
    };
    open()
        .map_err(|error: Error| Error::new(error.kind(), format!("a TAP device from /dev/net/tun: {error}")))
}

/// The host's addresses. It knows its neighbours' by heart: faults hit what programs say, and not the search for
/// whom they say it to, which would be over in some tests and not in others.
fn lines(host: usize, count: usize) -> String {
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
