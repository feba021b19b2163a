//! `suffrage keygen`: the keys of a cluster.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use suffrage_net::{Key, Keyring};

use suffrage_cli::Console;
use suffrage_cli::Error;

const EXAMPLES: &str =
    "A key file has one key per line. The first key seals the datagrams that a node sends; all keys open the \
datagrams that it receives. Only the owner of the file may have access to it (mode 600). All nodes of a cluster need \
the same keys. A holder of a key can impersonate any node.

Examples:
  suffrage keygen cluster.key
      creates a file with a new key; copy it to every node
  suffrage keygen cluster.key --add
      begins a rotation: adds a second key that opens; copy the file to every node, one after the other
  suffrage keygen cluster.key --promote
      when all nodes have that file: the second key seals; copy the file again
  suffrage keygen cluster.key --retire
      when all nodes have that file: removes the old key; copy the file a last time";

pub(crate) fn command() -> Command {
    let flag = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("keygen")
        .about("Creates and rotates the keys of a cluster")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The key file; without a step of a rotation, it must not exist yet"),
        )
        .arg(flag("add", "Adds a new key, which opens and does not seal yet"))
        .arg(flag("promote", "Moves the last key to the front, so that it seals"))
        .arg(flag("retire", "Removes all keys except the first"))
        .group(ArgGroup::new("step").args(["add", "promote", "retire"]))
        .arg(flag("json", "Prints the ids of the keys as JSON"))
        .after_help(EXAMPLES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let file = matches.get_one::<PathBuf>("file").expect("clap demands it");
    let step = ["add", "promote", "retire"].into_iter().find(|step| matches.get_flag(step));
    let keyring = match step {
        None => {
            let keyring = Keyring::generate()?;
            keyring.create(file)?;
            keyring
        }
        Some(step) => {
            let keyring = Keyring::load(file)?;
            let keyring = match step {
                "add" => keyring.with_new_key()?,
                "promote" => keyring.with_last_first(),
                _ => keyring.with_first_only(),
            };
            keyring.replace(file)?;
            keyring
        }
    };
    let ids: Vec<String> = keyring.keys().iter().map(Key::id).map(|id| id.to_string()).collect();
    if matches.get_flag("json") {
        let shown = serde_json::json!({ "file": file, "keys": ids });
        writeln!(console.out, "{shown}")?;
        return Ok(());
    }
    writeln!(console.out, "{}:", file.display())?;
    for (place, id) in ids.iter().enumerate() {
        writeln!(console.out, "  key {id} {}", if place == 0 { "seals and opens" } else { "opens" })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn run(arguments: &[&str]) -> (u8, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let line = ["suffrage", "keygen"].iter().chain(arguments).map(Into::into).collect();
        let code = crate::run(line, &mut Console::plain(&mut out, &mut err));
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn keys_are_created_and_rotated() {
        let folder = std::env::temp_dir().join(format!("suffrage-keygen-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("cluster.key");
        let name = file.to_str().unwrap();
        let (code, out, _) = run(&[name]);
        assert!(code == 0 && out.contains("seals and opens") && !out.contains(" opens\n  key"), "{out}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let (code, _, err) = run(&[name]);
        assert!(code == 1 && err.contains("cannot create") && err.contains("exists"), "{err}");
        let keys = |arguments: &[&str]| {
            let (code, out, err) = run(arguments);
            assert_eq!((code, err.as_str()), (0, ""));
            let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
            shown["keys"].as_array().unwrap().clone()
        };
        let both = keys(&[name, "--add", "--json"]);
        assert_eq!(keys(&[name, "--promote", "--json"]), [both[1].clone(), both[0].clone()]);
        assert_eq!(keys(&[name, "--retire", "--json"]), [both[1].clone()]);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let (code, _, err) = run(&[name, "--add"]);
        assert!(code == 1 && err.contains("chmod 600"), "{err}");
        assert_eq!(run(&[name, "--add", "--retire"]).0, 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
