//! Members on real sockets. Tests wait for conditions, with a generous limit.

use std::time::Duration;

use suffrage_net::{Dropped, Key, Keyring};
use tokio::time::{Instant, sleep};

use super::{GroupConfig, GroupMember};

const LIMIT: Duration = Duration::from_secs(90);

fn ring(seeds: &[u8]) -> Keyring {
    Keyring::new(seeds.iter().map(|&seed| Key::new([seed; 32])).collect()).unwrap()
}

fn config(name: &str, seeds: &[&GroupMember], keys: &[u8]) -> GroupConfig {
    let seeds = seeds.iter().map(|seed| seed.address().to_string()).collect();
    GroupConfig::new(name, "127.0.0.1:0".parse().unwrap(), seeds, ring(keys))
}

async fn join(name: &str, seeds: &[&GroupMember], keys: &[u8]) -> GroupMember {
    GroupMember::join(config(name, seeds, keys)).await.unwrap()
}

/// Waits until all members have a list of this length and follow one leader among them.
async fn agree(members: &[GroupMember], count: usize) {
    let end = Instant::now() + LIMIT;
    loop {
        let mut state = Vec::new();
        for member in members {
            state.push((member.members().await.len(), member.leader()));
        }
        let (length, leader) = state[0];
        let is_member = leader.is_some_and(|leader| members.iter().any(|member| member.id() == leader.id));
        if length == count && is_member && state.iter().all(|other| *other == state[0]) {
            return;
        }
        assert!(Instant::now() < end, "{state:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

async fn group(count: usize) -> Vec<GroupMember> {
    let mut members = vec![join("telemetry", &[], &[1]).await];
    while members.len() < count {
        let next = join("telemetry", &[&members[0]], &[1]).await;
        members.push(next);
    }
    agree(&members, count).await;
    members
}

#[tokio::test]
async fn members_find_each_other_and_replace_a_dead_leader() {
    let mut members = group(7).await;
    let leader = members[0].leader().unwrap();
    let index = members.iter().position(|member| member.id() == leader.id).unwrap();
    assert_eq!(leader.address, members[index].address());
    let dead = members.remove(index);
    dead.kill();
    agree(&members, 6).await;
    assert!(members[0].leader().unwrap().term > leader.term);
    let status = members[0].status().await.unwrap();
    assert_eq!((status.members, status.suspected), (6, 0));
    assert!(status.traffic.received > 0 && status.traffic.sent_bytes > 0);
}

#[tokio::test]
async fn a_member_that_leaves_hands_over_and_is_forgotten() {
    let mut members = group(4).await;
    let leader = members[0].leader().unwrap();
    let index = members.iter().position(|member| member.id() == leader.id).unwrap();
    // The last handle of a member is dropped: the member leaves.
    drop(members.remove(index));
    agree(&members, 3).await;
    assert!(members[0].status().await.is_some_and(|status| status.dead == 0));
    let (first, last) = (members[0].clone(), members[2].id());
    first.set_rank(9).await;
    let end = Instant::now() + LIMIT;
    while !members[1].members().await.iter().any(|peer| peer.id == first.id() && peer.rank == 9) {
        assert!(Instant::now() < end);
        sleep(Duration::from_millis(50)).await;
    }
    let leading = members.iter().find(|member| member.leads()).unwrap();
    leading.transfer(if leading.id() == last { first.id() } else { last }).await;
    let before = leading.id();
    while members.iter().any(|member| member.leader().is_none_or(|leader| leader.id == before)) {
        assert!(Instant::now() < end);
        sleep(Duration::from_millis(50)).await;
    }
}

/// Nothing crosses between groups with other names or keys, and everything is counted.
#[tokio::test]
async fn groups_with_other_names_or_keys_do_not_meet() {
    let members = group(2).await;
    let other_name = join("billing", &[&members[0]], &[1]).await;
    let other_key = join("telemetry", &[&members[0]], &[2]).await;
    let garbage = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let end = Instant::now() + LIMIT;
    loop {
        garbage.send_to(b"\x67 no datagram of a group", members[0].address()).unwrap();
        let traffic = members[0].status().await.unwrap().traffic;
        if traffic.dropped(Dropped::Unauthenticated) >= 4 && traffic.dropped(Dropped::Malformed) >= 1 {
            break;
        }
        assert!(Instant::now() < end, "{traffic:?}");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(members[0].members().await.len(), 2);
    for alone in [&other_name, &other_key] {
        assert_eq!(alone.members().await.len(), 1);
    }
}

#[tokio::test]
async fn keys_are_rotated_while_the_group_runs() {
    let members = group(3).await;
    for keys in [&[1, 2][..], &[2, 1], &[2]] {
        for member in &members {
            member.rekey(ring(keys)).await;
        }
    }
    // The new key lets a new member in.
    let mut all = members.clone();
    all.push(join("telemetry", &[&members[0]], &[2]).await);
    agree(&all, 4).await;
}

#[tokio::test]
async fn wrong_settings_are_refused_with_a_reason() {
    let refused = |config| async { GroupMember::join(config).await.unwrap_err().to_string() };
    let mut everywhere = config("x", &[], &[1]);
    everywhere.listen = "0.0.0.0:0".parse().unwrap();
    assert!(refused(everywhere).await.contains("advertise"), "the address cannot be reached");
    let mut large = config("x", &[], &[1]);
    large.id = Some(suffrage_core::NodeId(u64::MAX));
    assert!(refused(large).await.contains("2^63"));
}
