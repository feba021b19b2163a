//! Signals, exit codes, environment, orphans.

use std::fs;
use std::net::UdpSocket;

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::support::{Cluster, Process, WORK, alone, until};

const FLAGS: &str = "--ttl 2s --quiet";

#[test]
fn the_command_gets_its_environment_and_its_exit_code_is_returned() {
    let cluster = Cluster::start("3s");
    let once = format!("{FLAGS} --once --id 77");
    let script = r#"echo "is $SUFFRAGE_TOKEN $SUFFRAGE_NAME $SUFFRAGE_LEADER" >>"$LOG"; exit 7"#;
    assert_eq!(cluster.run(&once, script).code(), 7);
    let line = cluster.wait_for("is", 0);
    assert_eq!(line[2..], ["test", "77"]);
    assert!(line[1].parse::<u64>().unwrap() > 0);
    assert_eq!(cluster.run(&once, "kill -KILL $$").code(), 128 + 9);
    assert_eq!(cluster.run(&once, "exit 0").code(), 0);
    assert_eq!(cluster.run(&once, "exec /nonexistent/program").code(), 127);
}

#[test]
fn signals_are_passed_on() {
    let cluster = Cluster::start("3s");
    // The shell itself reports the signal, without a child that gets it as well.
    let script = r#"
        trap 'echo usr1 >>"$LOG"' USR1; trap 'echo usr2 >>"$LOG"' USR2; trap 'echo hup >>"$LOG"' HUP
        trap 'echo term >>"$LOG"; exit 5' TERM; trap 'echo int >>"$LOG"; exit 6' INT
        echo start >>"$LOG"; while :; do sleep 0.01; done"#;
    let mut run = cluster.run(FLAGS, script);
    cluster.wait_for("start", 0);
    for (signal, word) in [(Signal::USR1, "usr1"), (Signal::USR2, "usr2"), (Signal::HUP, "hup")] {
        run.signal(signal);
        cluster.wait_for(word, 0);
    }
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 5);
    let mut run = cluster.run(FLAGS, script);
    cluster.wait_for("start", 1);
    run.signal(Signal::INT);
    assert_eq!(run.code(), 6);
    assert_eq!((cluster.count("term"), cluster.count("int"), cluster.count("start")), (1, 1, 2));
    let mut run = cluster.run(FLAGS, "echo start >>\"$LOG\"; exec sleep 1000");
    cluster.wait_for("start", 2);
    run.signal(Signal::USR1);
    assert_eq!(run.code(), 128 + 10, "the command died of it, and so does the supervisor");
}

#[test]
fn a_waiting_candidate_ends_on_sigterm() {
    let cluster = Cluster::start("3s");
    let _leader = cluster.run(FLAGS, WORK);
    cluster.wait_for("start", 0);
    let mut waits = cluster.run_second("--ttl 2s");
    waits.signal(Signal::TERM);
    assert_eq!(waits.code(), 128 + 15);
    assert_eq!(cluster.count("start"), 1);
}

#[test]
fn background_processes_end_with_the_command() {
    let _alone = alone();
    let cluster = Cluster::start("3s");
    // Background processes: plain, in a session of its own, and orphaned.
    let script = r#"sleep 1001 & setsid sleep 1002 & (setsid sleep 1003 &) ; echo start >>"$LOG"; "#;
    let all = || (cluster.commands().len() >= 4).then_some(());
    // The command exits by itself.
    assert_eq!(cluster.run(&format!("{FLAGS} --once"), script).code(), 0);
    assert_eq!(cluster.commands(), [] as [i32; 0]);
    // The supervisor is killed.
    let script = format!("{script} sleep 1000; :");
    let mut run = cluster.run(FLAGS, &script);
    until("four run", all);
    run.kill();
    until("none is left", || cluster.commands().is_empty().then_some(()));
    // The supervisor gets SIGTERM, and the children ignore it.
    let deaf = format!("trap '' TERM; {script}");
    let mut run = cluster.run(FLAGS, &deaf);
    until("four run", all);
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 128 + 9);
    assert_eq!(cluster.commands(), [] as [i32; 0]);
}

#[test]
fn a_guard_that_is_killed_takes_the_command_with_it() {
    let _alone = alone();
    let cluster = Cluster::start("3s");
    let mut run =
        cluster.run(&format!("{FLAGS} --once"), "sleep 1001 & echo start $$ $PPID >>\"$LOG\"; sleep 1000");
    let guard: i32 = cluster.wait_for("start", 0)[2].parse().unwrap();
    kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
    assert_eq!(run.code(), 128 + 9);
    assert_eq!(cluster.commands(), [] as [i32; 0]);
}

/// Background processes of the command, in sessions of their own, hold the lock of the command. The next leader tries to
/// take it.
#[test]
fn a_guard_that_is_killed_leaves_no_process_beside_the_next_leader() {
    let _alone = alone();
    let cluster = Cluster::start("3s");
    // One is a child of the command, one is an orphan, one has a child that ignores signals, and one has no environment.
    let script = r#"exec 9>>"$LOCK"; flock -n 9 || echo "overlap $SUFFRAGE_TOKEN" >>"$LOG"
        setsid sleep 1001 & (setsid sleep 1002 &)
        setsid sh -c 'trap "" TERM HUP INT; setsid sleep 1003 & sleep 1004; :' &
        (env -i /usr/bin/setsid /bin/sleep 1005 &)
        echo "start $SUFFRAGE_TOKEN $$ $PPID" >>"$LOG"; sleep 1000; :"#;
    // With --once, the first candidate does not lead again.
    let mut first = cluster.run(&format!("{FLAGS} --once"), script);
    let started = cluster.wait_for("start", 0);
    // One process has no environment: the test does not find it, but the lock does.
    until("all run", || (cluster.commands().len() >= 7).then_some(()));
    let _second = cluster.run_second("--ttl 2s");
    let guard: i32 = started[3].parse().unwrap();
    let before = cluster.commands();
    kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
    assert_eq!(first.code(), 128 + 9);
    cluster.wait_for("start", 1);
    assert_eq!(cluster.count("overlap"), 0, "a process of the first leader lives on");
    let left: Vec<i32> = cluster.commands().into_iter().filter(|pid| before.contains(pid)).collect();
    assert_eq!(left, [] as [i32; 0]);
}

#[test]
fn hooks_run_before_and_after_the_command() {
    let cluster = Cluster::start("3s");
    let hook = |flag: &str, word: &str| -> [String; 2] {
        [flag.to_string(), format!("echo {word} $SUFFRAGE_TOKEN >>\"$LOG\"")]
    };
    let run = |acquire: &str| {
        let mut command = cluster.command_for("--ttl 3s --quiet --once");
        command.args(hook("--on-loss", "after")).args(["--on-acquire", acquire]);
        let child = command.args(["--", "/bin/sh", "-c", "echo during >>\"$LOG\"; exit 3"]).spawn();
        Process(child.unwrap()).code()
    };
    assert_eq!(run("echo before >>\"$LOG\""), 3);
    let words: Vec<String> = cluster.log().into_iter().map(|line| line[0].clone()).collect();
    assert_eq!(words, ["before", "during", "after"]);
    assert_eq!(run("exit 9"), 9);
    assert_eq!(cluster.count("during"), 1, "what could not be prepared is not run");
}

#[test]
fn invalid_flags_are_refused_at_once() {
    let cluster = Cluster::prepare("3s");
    let refusal = |flags: &str, command: &str| {
        let output = cluster.command_for(flags).args(["--", command]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text) = refusal("--ttl 1s --stop-grace 900ms", "true");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--stop-grace") && text.contains("would outlive the lease"), "{text}");
    let (code, text) = refusal("--id 2", "true");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--id: 2 is the id of a voter"), "{text}");
    let (code, text) = refusal("", "there-is-no-such-command");
    assert_eq!(code, Some(127), "{text}");
    let file = cluster.folder.join("no-program");
    fs::write(&file, "true\n").unwrap();
    let (code, text) = refusal("", file.to_str().unwrap());
    assert!(code == Some(126) && text.contains("is not executable"), "{text}");
    let (code, text) = refusal("--stop-signal NONE", "true");
    assert_eq!(code, Some(2), "{text}");
}

/// The node of the file uses the address and the folder itself.
#[test]
fn the_file_of_a_node_applies_except_listen_and_data() {
    let cluster = Cluster::start("3s");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let file = cluster.folder.join("node.toml");
    fs::write(&file, format!("id = 1\nttl = \"2s\"\nlisten = \"{address}\"\n")).unwrap();
    let code = |flags: &str, variable: &str| {
        let mut command = cluster.command_for(&format!("--quiet --once {flags}"));
        let child = command.env("SUFFRAGE_CONFIG", variable).args(["--", "true"]).spawn();
        Process(child.unwrap()).code()
    };
    let file = file.to_str().unwrap();
    assert_eq!(code("", file), 0);
    assert_eq!(code(&format!("--config {file}"), "/nowhere/at/all"), 0);
    assert_eq!(code(&format!("--listen {address}"), file), 1, "it was told to, and cannot");
    assert_eq!(code("", "/nowhere/at/all"), 2);
}

#[test]
fn a_waiting_candidate_prints_why_it_does_not_lead() {
    let mut cluster = Cluster::start("3s");
    cluster.voters.truncate(1);
    let said = cluster.folder.join("said");
    let mut command = cluster.command_for("--ttl 1s --stop-grace 100ms");
    let child = command.stderr(fs::File::create(&said).unwrap()).args(["--", "true"]).spawn();
    let _run = Process(child.unwrap());
    until("a reason", || {
        let text = fs::read_to_string(&said).unwrap();
        text.contains("still waits to lead: no majority of voters answers: 2 and 3 do not; voter 2 has never answered; voter 3 has never answered")
            .then_some(())
    });
}
