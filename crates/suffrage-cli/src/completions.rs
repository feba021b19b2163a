//! `completions`: prints a script that lets a shell complete the commands and flags of the program.

use clap::{Arg, ArgMatches, Command};
use clap_complete::{Shell, generate};

use crate::{Console, Error};

/// The subcommand, with examples of these shells.
pub fn command(examples: &'static str) -> Command {
    let shell = Arg::new("shell").value_name("SHELL").required(true).help("The shell");
    Command::new("completions")
        .about("Prints a script with which a shell completes commands and flags")
        .arg(shell.value_parser(["bash", "elvish", "fish", "powershell", "zsh"]))
        .after_help(examples)
}

/// Prints the script for this program.
pub fn execute(matches: &ArgMatches, console: &mut Console<'_>, program: Command) -> Result<u8, Error> {
    let shell = matches.get_one::<String>("shell").expect("clap demands it");
    let shell: Shell = shell.parse().map_err(Error::Usage)?;
    let name = program.get_name().to_string();
    let mut script = Vec::new();
    generate(shell, &mut visible(program), name, &mut script);
    console.out.write_all(&script)?;
    Ok(0)
}

/// The program without hidden commands: the generators do not leave them out.
fn visible(program: Command) -> Command {
    let commands: Vec<Command> = program.get_subcommands().filter(|it| !it.is_hide_set()).cloned().collect();
    let arguments: Vec<Arg> = program.get_arguments().cloned().collect();
    Command::new("program").version(env!("CARGO_PKG_VERSION")).args(arguments).subcommands(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(shell: &str) -> String {
        let commands = [
            Command::new("leader").arg(Arg::new("json").long("json")),
            Command::new("run-guard").hide(true),
            command(""),
        ];
        let program = Command::new("suffrage").subcommands(commands);
        let line = ["suffrage", "completions", shell];
        let matches = program.clone().try_get_matches_from(line).unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let matches = matches.subcommand_matches("completions").unwrap();
        assert_eq!(execute(matches, &mut Console::plain(&mut out, &mut err), program).unwrap(), 0);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn scripts_have_the_commands_and_flags_that_are_not_hidden() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = script(shell);
            for part in ["suffrage", "leader", "json", "completions"] {
                assert!(script.contains(part), "{shell}: no {part} in {script}");
            }
            assert!(!script.contains("run-guard") && !script.contains("run__guard"), "{shell}: {script}");
        }
    }
}
