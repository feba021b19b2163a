//! Tests of the configuration.

use super::*;

const FILE: &str = "\
id = 2
voters = [\"1=10.0.0.1:7400\", \"2=10.0.0.2:7400\", \"3=node-3:7400\"]

keys = \"/etc/suffrage/keys\"
data = \"/var/lib/suffrage\"
ttl = \"5s\"
drift = \"0.5%\"
";

fn read(text: &str, environment: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Result<Config, String> {
    let look_up = |name: &str| {
        environment.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.to_string())
    };
    let flags: Vec<_> = flags.iter().map(|(name, value)| (*name, value.to_string())).collect();
    Config::read(Some((Path::new("suffrage.toml"), text)), look_up, &flags)
        .map_err(|problems| problems.to_string())
}

#[test]
fn a_file_overrides_the_defaults() {
    let config = read(FILE, &[], &[]).unwrap();
    assert_eq!((config.id, config.voters.len(), config.votes()), (NodeId(2), 3, true));
    assert_eq!(config.voters[2], Peer { id: NodeId(3), address: "node-3:7400".to_string() });
    assert_eq!(config.ttl, Span::from_millis(5_000));
    assert_eq!(config.drift.to_string(), "0.5%");
    assert_eq!(config.longest_ttl, Span::from_millis(60_000));
    assert_eq!(config.http, Some("127.0.0.1:7480".parse().unwrap()), "loopback by default");
}

#[test]
fn a_flag_overrides_the_environment_which_overrides_the_file() {
    let environment = [("SUFFRAGE_TTL", "6s"), ("SUFFRAGE_LONGEST_TTL", "10s")];
    assert_eq!(read(FILE, &environment, &[]).unwrap().ttl, Span::from_millis(6_000));
    let config = read(FILE, &environment, &[("ttl", "7s")]).unwrap();
    assert_eq!((config.ttl, config.longest_ttl), (Span::from_millis(7_000), Span::from_millis(10_000)));
    assert_eq!(config.origin("ttl").to_string(), "--ttl");
    assert_eq!(config.origin("longest-ttl").to_string(), "SUFFRAGE_LONGEST_TTL");
    assert_eq!(config.origin("drift").to_string(), "suffrage.toml:7");
}

#[test]
fn all_problems_are_reported_at_once_with_their_lines() {
    let text = "id = 0\nvoters = [\"1=10.0.0.1\"]\n\nttl = \"3x\"\nlogs = \"info\"\nhttp = \"nowhere\"\n\
                [lease]\nttl = 3\n";
    let problems = read(text, &[("SUFFRAGE_LOG", "loud")], &[("drift", "60%")]).unwrap_err();
    assert_eq!(
        problems,
        "suffrage.toml:1: id: `0` is not an id; an id is a whole number from 1\n\
         suffrage.toml:2: voters: `10.0.0.1` is not a host and a port, like 10.0.0.1:7400\n\
         suffrage.toml:4: ttl: `3x` is not a time like 3s, 500ms or 1m\n\
         suffrage.toml:5: logs: is not a key; did you mean log?\n\
         suffrage.toml:6: http: `nowhere` is not an address with a port, like 127.0.0.1:7400\n\
         suffrage.toml:7: lease: is not a key; did you mean keys?\n\
         SUFFRAGE_LOG: log: `loud` is not error, warn, info or debug\n\
         --drift: `60%` is not a drift below 50%"
    );
    let broken = read("id = 1\nvoters = [\n", &[], &[]).unwrap_err();
    assert!(broken.starts_with("suffrage.toml:"), "{broken}");
}

#[test]
fn a_missing_key_is_reported_with_its_meaning_and_the_file() {
    let problems = read("", &[], &[]).unwrap_err();
    assert_eq!(
        problems,
        "suffrage.toml: id: is missing: set it to the id of this node, a whole number from 1\n\
         suffrage.toml: voters: is missing: set it to the voters that found the cluster, and their addresses; a \
         later node asks them for the present voters\n\
         suffrage.toml: keys: is missing: set it to the key file of the cluster; `suffrage keygen` writes one"
    );
    let problems = Config::read(None, |_| None, &[]).unwrap_err().to_string();
    assert!(problems.starts_with("configuration: id: is missing"), "{problems}");
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let refuses = |line: &str, reason: &str| {
        let problems = read(&format!("{FILE}{line}\n"), &[], &[]).unwrap_err();
        assert!(problems.contains(reason) && problems.contains("suffrage.toml:"), "{line}: {problems}");
    };
    refuses("longest-ttl = \"4s\"", "ttl: 5s is longer than longest-ttl, 4s");
    let (plain, open) = ("serves other machines without encryption", "accepts requests of other machines");
    refuses("http = \"0.0.0.0:80\"", &format!("http: 0.0.0.0:80 {plain}: set http-cert"));
    refuses("http = \"0.0.0.0:80\"", &format!("http: 0.0.0.0:80 {open}: set http-token"));
    refuses("http = \"[::]:80\"\nhttp-token = \"t\"", &format!("http: [::]:80 {plain}"));
    refuses("http = \"10.0.0.1:80\"\nhttp-plain = true", open);
    for pair in [["cert", "key"], ["key", "cert"]] {
        let [given, missing] = pair.map(|name| format!("http-{name}"));
        let problems = read(&format!("{FILE}{given} = \"x.pem\"\n"), &[], &[]).unwrap_err();
        assert!(problems.starts_with(&format!("suffrage.toml: {missing}: is missing")), "{problems}");
    }
    let open = "http = \"0.0.0.0:80\"\nhttp-token = \"t\"\n";
    for more in ["http-plain = true\n", "http-cert = \"c\"\nhttp-key = \"k\"\n"] {
        read(&format!("{FILE}{open}{more}"), &[], &[]).unwrap();
    }
    let diskless = FILE.replace("data = \"/var/lib/suffrage\"\n", "");
    assert!(read(&diskless, &[], &[]).unwrap_err().contains("data: is missing: node 2 votes"));
    assert!(read(&diskless, &[], &[("id", "9")]).is_ok(), "a node that does not vote needs no folder");
}

#[test]
fn voters_are_listed_once_each() {
    let refuses = |voters: &str, reason: &str| {
        let problems = read(FILE, &[("SUFFRAGE_VOTERS", voters)], &[]).unwrap_err();
        assert!(problems.contains(reason), "{voters}: {problems}");
    };
    refuses("1=a:1,1=b:1", "voter 1 is listed twice");
    refuses("1=a:1,2=a:1", "voters 1 and 2 have the same address");
    refuses("1", "`1` is not a voter");
    refuses("1=a:0", "`a:0` is not a host and a port");
    refuses("1=:80", "`:80` is not a host and a port");
    refuses(&(1..=10).map(|id| format!("{id}=h{id}:1")).collect::<Vec<_>>().join(","), "too many");
    assert!(read(FILE, &[("SUFFRAGE_VOTERS", "1=[::1]:7400, 2=b:7400")], &[]).is_ok());
}

#[test]
fn keys_have_one_name_everywhere() {
    for key in KEYS {
        assert!(key.name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'-'), "{}", key.name);
        assert!(key.help.len() > 10 && !key.value.is_empty());
    }
    assert_eq!(KEYS.iter().find(|key| key.name == "longest-ttl").unwrap().variable(), "SUFFRAGE_LONGEST_TTL");
}

#[test]
fn the_unix_socket_has_a_usual_path_and_permissions() {
    let config = read(FILE, &[], &[]).unwrap();
    assert_eq!((config.socket, config.socket_mode), (LocalSocket::Usual, 0o660));
    let flags = [("socket", "/tmp/x.sock"), ("socket-mode", "600"), ("socket-group", "adm")];
    let config = read(FILE, &[], &flags).unwrap();
    assert_eq!(config.socket, LocalSocket::At("/tmp/x.sock".into()));
    assert_eq!((config.socket_mode, config.socket_group.as_deref()), (0o600, Some("adm")));
    assert_eq!(read(FILE, &[("SUFFRAGE_SOCKET", "off")], &[]).unwrap().socket, LocalSocket::Off);
    for mode in ["888", "1777", "rw", ""] {
        let refused = read(FILE, &[], &[("socket-mode", mode)]).unwrap_err();
        assert!(refused.contains("is not a mode of three octal digits, like 660"), "{refused}");
    }
}
