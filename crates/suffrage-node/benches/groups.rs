//! A large group of real sockets on one machine: `cargo xtask bench groups [--members N] [--processes P] [--runs R] [--json]`.
//!
//! The benchmark starts itself several times as a host of members, and talks to the hosts over pipes.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures time and runs programs")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use suffrage_core::NodeId;
use suffrage_net::{Key, Keyring};
use suffrage_node::group::{GroupConfig, GroupMember};

/// The limit of each wait for a condition.
const LIMIT: Duration = Duration::from_secs(120);
/// How long an idle group is observed.
const IDLE: Duration = Duration::from_secs(30);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [first, rest @ ..] = &arguments[..]
        && first == "host"
    {
        return host(rest[0].parse().expect("a number of members"), &rest[1..]);
    }
    let value = |name: &str, default: u64| {
        let place = arguments.iter().position(|argument| argument == name);
        place.and_then(|place| arguments.get(place + 1)?.parse().ok()).unwrap_or(default)
    };
    let (members, processes) = (value("--members", 2_000), value("--processes", 4).max(1));
    let mut group = Hosts::start(members as usize, processes as usize);
    let rows = group.measure(value("--runs", 20));
    if arguments.iter().any(|argument| argument == "--json") {
        let rows: Vec<Value> = rows.iter().map(|(what, value, unit, goal)| json!({ "what": what, "value": value, "unit": unit, "goal": goal })).collect();
        println!("{}", json!({ "members": members, "processes": processes, "figures": rows }));
        return;
    }
    println!(
        "{members} members as real sockets in {processes} processes; sealed; this is not the quorum lease: two can lead\n"
    );
    for (what, value, unit, goal) in rows {
        let shown = value.map_or("never".to_string(), |value| format!("{value:.2} {unit}"));
        let met = goal
            .map_or("", |goal: f64| if value.is_some_and(|value| value <= goal) { "met" } else { "MISSED" });
        let goal = goal.map_or("-".to_string(), |goal| format!("{goal} {unit}"));
        println!("  {what:<52} {shown:>14} {goal:>12}   {met}");
    }
}

/// A process of members: reads commands from standard input, and writes one line of JSON for each.
fn host(count: usize, seeds: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut members: Vec<GroupMember> = Vec::new();
    let (sender, mut commands) = tokio::sync::mpsc::unbounded_channel::<String>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    runtime.block_on(async move {
        for _ in 0..count {
            // The first member of the first host is the seed of all others.
            let own = members.first().map(|first| first.address().to_string());
            let seeds: Vec<String> = seeds.first().cloned().or(own).into_iter().collect();
            members.push(GroupMember::join(config(seeds)).await.expect("a member starts"));
        }
        println!("{}", json!({ "address": members[0].address().to_string() }));
        while let Some(line) = commands.recv().await {
            let id = line.split(' ').nth(1).and_then(|id| id.parse().ok()).map(NodeId);
            if line.starts_with("kill") {
                members.iter().filter(|member| Some(member.id()) == id).for_each(GroupMember::kill);
                members.retain(|member| Some(member.id()) != id);
                println!("{}", json!({ "members": members.len() }));
            } else {
                println!("{}", poll(&members, id).await);
            }
        }
    });
}

fn config(seeds: Vec<String>) -> GroupConfig {
    let keyring = Keyring::new(vec![Key::new([7; 32])]).expect("one key");
    GroupConfig::new("bench", "127.0.0.1:0".parse().expect("an address"), seeds, keyring)
}

async fn poll(members: &[GroupMember], id: Option<NodeId>) -> Value {
    let (mut lists, mut leaders) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    let (mut sent, mut bytes, mut deaths, mut knows) = (0, 0, 0, 0);
    for member in members {
        let Some(status) = member.status().await else { continue };
        *lists.entry(status.members.to_string()).or_default() += 1;
        *leaders.entry(member.leader().map_or(String::new(), |leader| leader.id.to_string())).or_default() +=
            1;
        sent += status.traffic.sent;
        bytes += status.traffic.sent_bytes;
        deaths += status.counters.deaths_declared;
        if let Some(id) = id {
            knows += u64::from(member.members().await.iter().any(|peer| peer.id == id));
        }
    }
    let usage = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = usage
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    // Fields 14 and 15 are the CPU time in ticks of 10 ms, field 24 the resident pages; the name is field 2.
    let cpu_ms = (fields.get(11).unwrap_or(&0.0) + fields.get(12).unwrap_or(&0.0)) * 10.0;
    let rss_kib = fields.get(21).unwrap_or(&0.0) * 4.0;
    let first = members.first().map(|member| member.id().to_string());
    json!({ "lists": lists, "leaders": leaders, "sent": sent, "bytes": bytes, "deaths": deaths, "knows": knows,
            "cpu_ms": cpu_ms, "rss_kib": rss_kib, "first": first })
}

type Row = (&'static str, Option<f64>, &'static str, Option<f64>);

/// The hosts of the members.
struct Hosts {
    processes: Vec<(Child, ChildStdin, BufReader<ChildStdout>)>,
    members: usize,
    since: Instant,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for (process, ..) in &mut self.processes {
            // A host that has ended already needs no end.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Hosts {
    fn start(members: usize, processes: usize) -> Hosts {
        let mut hosts = Hosts { processes: Vec::new(), members, since: Instant::now() };
        let mut seed: Option<String> = None;
        for process in 0..processes {
            let count = members / processes + usize::from(process < members % processes);
            let program = std::env::current_exe().expect("this program has a path");
            let mut child = Command::new(program)
                .args(["host", &count.to_string()])
                .args(seed.clone())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a host starts");
            let stdin = child.stdin.take().expect("a pipe");
            let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
            hosts.processes.push((child, stdin, stdout));
            if seed.is_none() {
                let address = hosts.read(0)["address"].as_str().map(str::to_string);
                seed = address;
            }
        }
        for process in 1..processes {
            hosts.read(process);
        }
        hosts
    }

    fn read(&mut self, process: usize) -> Value {
        let mut line = String::new();
        self.processes[process].2.read_line(&mut line).expect("a host answers");
        serde_json::from_str(&line).expect("a host answers in JSON")
    }

    fn command(&mut self, process: usize, line: &str) -> Value {
        writeln!(self.processes[process].1, "{line}").expect("a host listens");
        self.read(process)
    }

    /// The sums over all hosts.
    fn poll(&mut self, id: Option<&str>) -> Sum {
        let line = id.map_or("poll".to_string(), |id| format!("poll {id}"));
        let mut sum = Sum::default();
        for process in 0..self.processes.len() {
            let answer = self.command(process, &line);
            let number = |name: &str| answer[name].as_f64().unwrap_or(0.0);
            sum.sent += number("sent");
            sum.bytes += number("bytes");
            sum.deaths += number("deaths");
            sum.knows += number("knows");
            sum.cpu_ms += number("cpu_ms");
            sum.rss_kib += number("rss_kib");
            for (name, counts) in [("lists", &mut sum.lists), ("leaders", &mut sum.leaders)] {
                for (key, count) in answer[name].as_object().into_iter().flatten() {
                    *counts.entry(key.clone()).or_default() += count.as_f64().unwrap_or(0.0);
                }
            }
        }
        sum
    }

    /// Polls until a condition holds, and returns the seconds since `from`.
    fn until(
        &mut self,
        from: Instant,
        id: Option<&str>,
        mut condition: impl FnMut(&Sum, f64) -> bool,
    ) -> Option<f64> {
        while from.elapsed() < LIMIT {
            let sum = self.poll(id);
            let at = from.elapsed().as_secs_f64();
            if condition(&sum, at) {
                return Some(at);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }

    fn measure(&mut self, runs: u64) -> Vec<Row> {
        let count = self.members as f64;
        let mut rows = self.formation();
        std::thread::sleep(Duration::from_secs(5));
        let before = self.poll(None);
        let idle = Instant::now();
        std::thread::sleep(IDLE);
        let after = self.poll(None);
        let each = idle.elapsed().as_secs_f64() * count;
        rows.push(("idle: sent by a member", Some((after.bytes - before.bytes) / each), "B/s", Some(300.0)));
        rows.push(("idle: datagrams of a member", Some((after.sent - before.sent) / each), "1/s", Some(2.5)));
        rows.push((
            "idle: CPU of a member",
            Some((after.cpu_ms - before.cpu_ms) / 10.0 / each),
            "%",
            Some(0.02),
        ));
        rows.push(("memory of a member", Some(after.rss_kib / count), "KiB", Some(256.0)));
        rows.push(("idle: declared dead", Some(after.deaths - before.deaths), "", Some(0.0)));
        let (mut halves, mut mosts, mut leaders) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..runs {
            let process = 1 % self.processes.len() + run as usize % (self.processes.len() - 1).max(1);
            let (half, most) = self.death(process % self.processes.len());
            halves.push(half);
            mosts.push(most);
            leaders.push(self.leader_death());
        }
        rows.push(("a member's death: half know, median", quantile(halves, 0.5), "s", Some(6.0)));
        rows.push(("a member's death: 99% know, median", quantile(mosts.clone(), 0.5), "s", Some(8.0)));
        rows.push(("a member's death: 99% know, slowest", quantile(mosts, 1.0), "s", None));
        rows.push(("the leader's death: 99% agree, median", quantile(leaders.clone(), 0.5), "s", Some(3.0)));
        rows.push((
            "the leader's death: 99% agree, 99th percentile",
            quantile(leaders, 0.99),
            "s",
            Some(5.0),
        ));
        rows
    }

    fn formation(&mut self) -> Vec<Row> {
        let (count, from) = (self.members as f64, self.since);
        let (whole, mut half, mut most) = (self.members.to_string(), None, None);
        let mut last = Sum::default();
        let all = self.until(from, None, |sum, at| {
            let share = sum.lists.get(&whole).copied().unwrap_or(0.0) / count;
            if share >= 0.5 {
                half.get_or_insert(at);
            }
            if share >= 0.99 {
                most.get_or_insert(at);
            }
            last = sum.clone();
            share == 1.0 && sum.common_leader().1 == count
        });
        vec![
            ("formed: half have the whole list", half, "s", Some(5.0)),
            ("formed: 99% have it", most, "s", Some(15.0)),
            ("formed: all have it, and one leader", all, "s", Some(30.0)),
            ("sent until then by a member", Some(last.bytes / count / 1_000.0), "KB", Some(100.0)),
            ("CPU until then of a member", Some(last.cpu_ms / count), "ms", Some(10.0)),
        ]
    }

    /// Kills the first member of a host that does not lead.
    fn death(&mut self, process: usize) -> (Option<f64>, Option<f64>) {
        let id = self.command(process, "poll")["first"].as_str().unwrap_or_default().to_string();
        self.command(process, &format!("kill {id}"));
        self.members -= 1;
        let (count, mut half) = (self.members as f64, None);
        let most = self.until(Instant::now(), Some(&id), |sum, at| {
            let share = 1.0 - sum.knows / count;
            if share >= 0.5 {
                half.get_or_insert(at);
            }
            share >= 0.99
        });
        (half, most)
    }

    fn leader_death(&mut self) -> Option<f64> {
        let (leader, _) = self.poll(None).common_leader();
        for process in 0..self.processes.len() {
            self.command(process, &format!("kill {leader}"));
        }
        self.members -= 1;
        let count = self.members as f64;
        self.until(Instant::now(), None, |sum, _| {
            let (next, followers) = sum.common_leader();
            next != leader && !next.is_empty() && followers >= 0.99 * count
        })
    }
}

#[derive(Clone, Default)]
struct Sum {
    sent: f64,
    bytes: f64,
    deaths: f64,
    knows: f64,
    cpu_ms: f64,
    rss_kib: f64,
    lists: BTreeMap<String, f64>,
    leaders: BTreeMap<String, f64>,
}

impl Sum {
    /// The leader that most members follow, and their number.
    fn common_leader(&self) -> (String, f64) {
        let most = self
            .leaders
            .iter()
            .filter(|(id, _)| !id.is_empty())
            .max_by(|one, other| one.1.total_cmp(other.1));
        most.map_or((String::new(), 0.0), |(id, count)| (id.clone(), *count))
    }
}

fn quantile(mut values: Vec<Option<f64>>, share: f64) -> Option<f64> {
    values.sort_by(|one, other| one.unwrap_or(f64::MAX).total_cmp(&other.unwrap_or(f64::MAX)));
    values.get(((values.len() as f64 * share).ceil() as usize).max(1) - 1).copied().flatten()
}
