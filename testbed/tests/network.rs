//! Tests of the faults of a network, with real sockets in real namespaces. Need root.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of real sockets")]
#![cfg(target_os = "linux")]

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use suffrage_testbed::{Folder, LinkConditions, Network, SmallDisk};

const MS: Duration = Duration::from_millis(1);
/// The time after which a datagram counts as lost, also on a busy machine.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(1);

fn socket(network: &Network, host: usize) -> (UdpSocket, SocketAddr) {
    let address = SocketAddr::from((network.host(host).address(), 7000));
    let socket = network.host(host).enter(|| UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
    (socket, address)
}

/// The next received number, or none after a time-out.
fn receive(socket: &UdpSocket) -> Option<u32> {
    let mut buffer = [0; 100];
    match socket.recv(&mut buffer) {
        Ok(length) => Some(u32::from_be_bytes(buffer[..length].try_into().unwrap())),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

fn passes(from: &UdpSocket, to: &(UdpSocket, SocketAddr)) -> bool {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    from.send_to(&number.to_be_bytes(), to.1).unwrap();
    std::iter::from_fn(|| receive(&to.0)).any(|received| received == number)
}

#[test]
fn cuts_have_one_or_both_directions_and_heal() {
    let network = Network::new(3, 1).unwrap();
    let [a, b, c] = [1, 2, 3].map(|host| socket(&network, host));
    let links = || [passes(&a.0, &b), passes(&b.0, &a), passes(&a.0, &c), passes(&b.0, &c)];
    assert_eq!(links(), [true, true, true, true]);
    network.cut(&[1], &[2, 3]);
    assert_eq!(links(), [false, false, false, true]);
    network.heal();
    network.cut_one_way(&[2], &[1]);
    assert_eq!(links(), [true, false, true, true]);
    network.heal();
    assert_eq!(links(), [true, true, true, true]);
    assert!(network.tally().cut >= 4, "{:?}", network.tally());
}

/// Sends a thousand datagrams. The bounds are more than five standard errors away, for any seed.
#[test]
fn links_have_the_conditions_that_were_set() {
    let network = Network::new(2, 7).unwrap();
    let (a, b) = (socket(&network, 1), socket(&network, 2));
    network.set_conditions(
        1,
        2,
        LinkConditions { loss: 0.2, delay: 30 * MS, jitter: 20 * MS, duplication: 0.1 },
    );
    let (start, sent) = (Instant::now(), AtomicBool::new(false));
    let all = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut all = Vec::new();
            loop {
                match receive(&b.0) {
                    Some(number) => all.push((number, start.elapsed())),
                    None if sent.load(Ordering::Relaxed) => return all,
                    None => {}
                }
            }
        });
        for number in 0..1_000u32 {
            a.0.send_to(&number.to_be_bytes(), b.1).unwrap();
            std::thread::sleep(MS / 2);
        }
        sent.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    let mut numbers: Vec<u32> = all.iter().map(|(number, _)| *number).collect();
    assert!(!numbers.is_sorted(), "no datagram has overtaken another");
    numbers.sort_unstable();
    let twice = numbers.windows(2).filter(|pair| pair[0] == pair[1]).count();
    numbers.dedup();
    assert!((730..870).contains(&numbers.len()), "{} of 1000 arrived; a fifth should be lost", numbers.len());
    assert!((35..130).contains(&twice), "{twice} arrived twice; a tenth of 800 should");
    assert!(all[0].1 >= 30 * MS, "the first arrived too early, after {:?}", all[0].1);
    // The other direction has no faults.
    assert!(passes(&b.0, &a));
    println!("{:?}, the last after {:?}", network.tally(), all.last().unwrap().1);
}

#[test]
fn resources_of_dropped_values_and_of_ended_processes_are_removed() {
    let namespaces = || -> Vec<String> {
        let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    // Names end with a count. The part before it identifies the process.
    let folder = Folder::new().unwrap();
    let (mine, _) = folder.path().file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap();
    let ours = |name: &String| name.starts_with(mine);
    let me = std::process::id();
    let lost = format!("{}-{me}", mine.replacen(&format!("-{me}-"), "-99999999-", 1));
    assert!(Command::new("ip").args(["netns", "add", &lost]).status().unwrap().success());
    let forgotten = std::env::temp_dir().join(&lost);
    fs::create_dir_all(forgotten.join("with")).unwrap();
    let network = Network::new(2, 1).unwrap();
    assert!(!namespaces().contains(&lost), "the namespace belongs to an ended process");
    let before = namespaces().iter().filter(|name| ours(name)).count();
    assert!(before >= 2, "namespaces of this test and of parallel tests");
    let mut sleeper =
        network.host(2).enter(|| Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap());
    drop(network);
    assert!(!sleeper.wait().unwrap().success(), "processes of a host end with it");
    // Other tests run in parallel, so only the own resources are checked.
    let disk = SmallDisk::new(64).unwrap();
    let path = disk.path().to_path_buf();
    disk.fill().unwrap();
    assert_eq!(fs::write(path.join("more"), "x").unwrap_err().kind(), ErrorKind::StorageFull);
    disk.free().unwrap();
    fs::write(path.join("more"), "x").unwrap();
    drop(disk);
    assert!(!path.exists() && !forgotten.exists());
}
