//! Real sockets in real namespaces: that faults are what they are called. Needs root.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of the edge")]
#![cfg(target_os = "linux")]

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use suffrage_testbed::{Folder, Network, SmallDisk, Weather};

const MS: Duration = Duration::from_millis(1);
/// Whatever has not come after so long does not come, however busy the machine is.
const QUIET: Duration = Duration::from_secs(1);

fn socket(network: &Network, host: usize) -> (UdpSocket, SocketAddr) {
    let address = SocketAddr::from((network.host(host).address(), 7000));
    let socket = network.host(host).enter(|| UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(QUIET)).unwrap();
    (socket, address)
}

/// The next number that comes, if one does.
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
fn cuts_are_whole_or_one_way_and_heal() {
    let network = Network::new(3, 1).unwrap();
    let [a, b, c] = [1, 2, 3].map(|host| socket(&network, host));
    let ways = || [passes(&a.0, &b), passes(&b.0, &a), passes(&a.0, &c), passes(&b.0, &c)];
    assert_eq!(ways(), [true, true, true, true]);
    network.cut(&[1], &[2, 3]);
    assert_eq!(ways(), [false, false, false, true]);
    network.heal();
    network.cut_one_way(&[2], &[1]);
    assert_eq!(ways(), [true, false, true, true]);
    network.heal();
    assert_eq!(ways(), [true, true, true, true]);
    assert!(network.tally().cut >= 4, "{:?}", network.tally());
}

/// A thousand datagrams. The bounds are more than five standard errors away, for any seed.
#[test]
fn weather_is_as_it_was_set() {
    let network = Network::new(2, 7).unwrap();
    let (a, b) = (socket(&network, 1), socket(&network, 2));
    network.set_weather(1, 2, Weather { loss: 0.2, delay: 30 * MS, jitter: 20 * MS, duplication: 0.1 });
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
    assert!(!numbers.is_sorted(), "none has overtaken another");
    numbers.sort_unstable();
    let twice = numbers.windows(2).filter(|pair| pair[0] == pair[1]).count();
    numbers.dedup();
    assert!(
        (730..870).contains(&numbers.len()),
        "{} of 1000 came, and a fifth was to be lost",
        numbers.len()
    );
    assert!((35..130).contains(&twice), "{twice} came twice, and a tenth of 800 was to");
    assert!(all[0].1 >= 30 * MS, "{:?}: the first was there too early", all[0].1);
    // The other way is as before.
    assert!(passes(&b.0, &a));
    println!("{:?}, the last after {:?}", network.tally(), all.last().unwrap().1);
}

#[test]
fn nothing_is_left_of_a_network_nor_of_one_whose_process_is_gone() {
    let namespaces = || -> Vec<String> {
        let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    // Names end with a count; what is before it tells which process made them.
    let folder = Folder::new().unwrap();
    let (mine, _) = folder.path().file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap();
    let ours = |name: &String| name.starts_with(mine);
    let me = std::process::id();
    let lost = format!("{}-{me}", mine.replacen(&format!("-{me}-"), "-99999999-", 1));
    assert!(Command::new("ip").args(["netns", "add", &lost]).status().unwrap().success());
    let forgotten = std::env::temp_dir().join(&lost);
    fs::create_dir_all(forgotten.join("with")).unwrap();
    let network = Network::new(2, 1).unwrap();
    assert!(!namespaces().contains(&lost), "it was left by a process that no more is");
    let before = namespaces().iter().filter(|name| ours(name)).count();
    assert!(before >= 2, "those of this test, and of those beside it");
    let mut sleeper =
        network.host(2).enter(|| Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap());
    drop(network);
    assert!(!sleeper.wait().unwrap().success(), "what runs in a host ends with it");
    // Others run beside this one, in this process or not: only these two are known to be gone.
    let disk = SmallDisk::new(64).unwrap();
    let path = disk.path().to_path_buf();
    disk.fill().unwrap();
    assert_eq!(fs::write(path.join("more"), "x").unwrap_err().kind(), ErrorKind::StorageFull);
    disk.free().unwrap();
    fs::write(path.join("more"), "x").unwrap();
    drop(disk);
    assert!(!path.exists() && !forgotten.exists());
}
