//! A history of processes that lead one after the other, and are killed, stopped and left without their node.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};

use rustix::process::Signal;
use suffrage_core::Rng;

use super::super::{Cluster, soon};
use super::HolderProcess;

/// The number of disruptions: `SUFFRAGE_KILLS`, or 60.
fn disruptions() -> usize {
    std::env::var("SUFFRAGE_KILLS").map_or(60, |count| count.parse().expect("SUFFRAGE_KILLS is a number"))
}

/// The lines of the record that are complete: time, token and process.
fn record(path: &std::path::Path) -> Vec<(u64, u64, u64)> {
    parse(&fs::read_to_string(path).unwrap_or_default())
}

/// The last line of the record. The record of many disruptions is long, and is read very often.
fn last_entry(path: &std::path::Path) -> Option<(u64, u64, u64)> {
    let mut file = fs::File::open(path).ok()?;
    let from = file.metadata().ok()?.len().saturating_sub(4096);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    // The first line may be cut.
    let whole = if from == 0 { &text[..] } else { text.split_once('\n')?.1 };
    parse(whole).last().copied()
}

fn parse(text: &str) -> Vec<(u64, u64, u64)> {
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let numbers = |line: &str| {
        let mut numbers = line.split(' ').map(|number| number.parse::<u64>().unwrap());
        let mut next = || numbers.next().unwrap();
        (next(), next(), next())
    };
    whole.lines().map(numbers).collect()
}

/// By the clock of the machine, no process leads after another has begun: tokens never go back.
#[test]
fn no_two_processes_lead_at_one_moment_whatever_is_killed() {
    let mut cluster = Cluster::start_with("history", "longest-ttl = \"1s\"\nttl = \"1s\"");
    let path = cluster.folder.join("record");
    let extra = format!("record={}", path.display());
    let start = |cluster: &Cluster, place: usize| {
        HolderProcess::start(&cluster.socket(place), "x", "500ms", &[&extra])
    };
    let mut rng = Rng::new(std::process::id().into());
    let mut holders: Vec<(usize, HolderProcess)> =
        (0..6).map(|place| (place % 3, start(&cluster, place % 3))).collect();
    let mut done = 0;
    for _ in 0..disruptions() {
        // A process whose lease was not renewed in time has ended.
        for (place, holder) in &mut holders {
            if holder.has_ended() {
                *holder = start(&cluster, *place);
            }
        }
        // Each disruption finds somebody who leads since the last one.
        let last = last_entry(&path).map_or(0, |(now, _, _)| now);
        let leader = soon(|| last_entry(&path).filter(|&(now, _, _)| now > last)).2;
        let leads = holders.iter().position(|(_, holder)| u64::from(holder.id()) == leader);
        let Some(leads) = leads else { continue };
        done += 1;
        match rng.below(5) {
            0 => {
                // The node dies under the leader, and the leader ends with its connection.
                let place = holders[leads].0;
                let mut node = cluster.processes[place].take().unwrap();
                node.kill().unwrap();
                node.wait().unwrap();
                let process = cluster.spawn(place + 1, &[]);
                cluster.processes[place] = Some(process);
                cluster.await_answer(place);
                for (_, holder) in holders.iter_mut().filter(|(at, _)| *at == place) {
                    holder.kill();
                }
                for (at, holder) in &mut holders {
                    if *at == place {
                        *holder = start(&cluster, place);
                    }
                }
            }
            1 => {
                holders[leads].1.signal(Signal::STOP);
                let began = super::boottime();
                soon(|| (super::boottime() > began + rng.below(900) * 1_000_000).then_some(()));
                holders[leads].1.signal(Signal::CONT);
            }
            _ => {
                let place = rng.below(3) as usize;
                holders[leads].1.kill();
                holders[leads] = (place, start(&cluster, place));
            }
        }
    }
    let mut record = record(&path);
    record.sort_unstable();
    let tokens: Vec<u64> = record.iter().map(|&(_, token, _)| token).collect();
    assert!(tokens.is_sorted(), "a process works after a later leader has begun");
    let mut leaders: Vec<(u64, u64)> = record.iter().map(|&(_, token, process)| (token, process)).collect();
    leaders.dedup();
    assert!(
        leaders.is_sorted_by_key(|&(token, _)| token) && leaders.windows(2).all(|two| two[0].0 < two[1].0)
    );
    assert!(done > disruptions() / 2 && leaders.len() > done / 2, "{done} {}", leaders.len());
}
