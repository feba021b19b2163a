//! Errors of commands, with exit codes. A message is one sentence that names the flag.

use std::error::Error as _;
use std::io::{self, ErrorKind as Io};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use suffrage_core::BadParameter;
use suffrage_node::config::Problems;

use crate::Console;

/// An error of a command.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The value of a flag is wrong.
    Flag {
        /// The flag, with its dashes.
        flag: String,
        /// The problem and the remedy, as the end of a sentence.
        reason: String,
    },
    /// The command line is wrong in one place or several.
    Usage(String),
    /// The command failed.
    Failed(String),
    /// The command line cannot be parsed, or asks for help.
    Clap(clap::Error),
    /// Output could not be written.
    Write(io::Error),
    /// The configuration of a node is wrong.
    Config(Problems),
    /// A node cannot start, or has failed.
    Node(suffrage_node::Error),
    /// A node does not answer.
    Unreachable(String),
    /// A file could not be written.
    File(PathBuf, io::Error),
}

impl Error {
    /// An error about the value of `--flag`.
    pub fn flag(flag: &str, reason: impl Into<String>) -> Error {
        Error::Flag { flag: format!("--{flag}"), reason: reason.into() }
    }

    /// Prints the error and returns the exit code. `path` is the subcommand, for the hint.
    pub fn report(self, path: &str, console: &mut Console<'_>) -> u8 {
        let (code, text) = match self {
            // A closed pipe, as of `head`, is no error.
            Error::Write(error) | Error::File(_, error) if error.kind() == Io::BrokenPipe => return 0,
            Error::Write(error) => (1, format!("error: cannot write the output: {error}\n")),
            Error::File(file, error) => (1, format!("error: cannot write {}: {error}\n", file.display())),
            Error::Config(problems) => (2, format!("{problems}\n")),
            Error::Node(error) => (1, format!("error: {error}\n")),
            Error::Unreachable(reason) => (3, format!("error: {reason}\n")),
            Error::Flag { flag, reason } => (2, complaint(&format!("{flag}: {reason}"), path)),
            Error::Usage(text) => (2, complaint(&text, path)),
            Error::Failed(text) => (1, format!("error: {text}\n")),
            Error::Clap(error) => match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    let shown = write!(console.out, "{error}").and_then(|()| console.out.flush());
                    return shown.map_or_else(|error| Error::Write(error).report(path, console), |()| 0);
                }
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => (2, error.to_string()),
                _ => (2, complaint(&sentence(&error, path), path)),
            },
        };
        // If standard error is closed, the exit code remains.
        let _ = console.err.write_all(text.as_bytes());
        code
    }
}

impl From<BadParameter> for Error {
    fn from(bad: BadParameter) -> Error {
        Error::flag(bad.name, bad.reason)
    }
}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Error {
        Error::Config(problems)
    }
}

impl From<suffrage_node::Error> for Error {
    fn from(error: suffrage_node::Error) -> Error {
        Error::Node(error)
    }
}

impl From<suffrage_net::Error> for Error {
    fn from(error: suffrage_net::Error) -> Error {
        Error::Node(error.into())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Write(error)
    }
}

impl From<clap::Error> for Error {
    fn from(error: clap::Error) -> Error {
        Error::Clap(error)
    }
}

fn complaint(sentence: &str, path: &str) -> String {
    format!("error: {sentence}\nhint: `{path} --help` explains every flag\n")
}

/// An error of clap as one sentence.
fn sentence(error: &clap::Error, path: &str) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        // The likeliest suggestion is the last.
        Some(ContextValue::Strings(texts)) => texts.last().cloned(),
        _ => None,
    };
    let flag = || context(ContextKind::InvalidArg).unwrap_or_default();
    let name = || flag().split([' ', '=']).next().unwrap_or_default().to_string();
    let meant = |kind| context(kind).map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
    match error.kind() {
        ErrorKind::ValueValidation => {
            let reason = error.source().map_or("the value is wrong".to_string(), ToString::to_string);
            // The reason names an argument without a flag itself.
            if name().starts_with('-') { format!("{}: {reason}", name()) } else { reason }
        }
        ErrorKind::InvalidValue => {
            match (context(ContextKind::InvalidValue), error.get(ContextKind::ValidValue)) {
                (Some(given), Some(ContextValue::Strings(valid))) if !given.is_empty() => {
                    let reason = format!("`{given}` is none of {}", valid.join(", "));
                    if name().starts_with('-') { format!("{}: {reason}", name()) } else { reason }
                }
                _ => format!("{}: a value is missing", name()),
            }
        }
        ErrorKind::UnknownArgument if !flag().starts_with('-') => format!("unexpected argument `{}`", flag()),
        ErrorKind::UnknownArgument => {
            format!("there is no flag `{}`{}", flag(), meant(ContextKind::SuggestedArg))
        }
        ErrorKind::InvalidSubcommand => {
            let given = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            let what = match path {
                path if path.ends_with("simulate") || path.ends_with("torture") => "algorithm",
                // The algorithm may exist: `check` has few of them.
                path if path.ends_with("check") => {
                    let meant = match meant(ContextKind::SuggestedSubcommand) {
                        nothing if nothing.is_empty() => {
                            format!("; `{path} --help` lists those that it does")
                        }
                        meant => meant,
                    };
                    return format!("`{path}` does not explore an algorithm `{given}`{meant}");
                }
                path if path.ends_with("reproduce") => "paper",
                _ => "command",
            };
            let list = "; `suffrage-lab algorithms` lists them".to_string();
            match meant(ContextKind::SuggestedSubcommand) {
                nothing if nothing.is_empty() && what == "algorithm" => {
                    format!("there is no {what} `{given}`{list}")
                }
                meant => format!("there is no {what} `{given}`{meant}"),
            }
        }
        ErrorKind::MissingRequiredArgument => format!("{} is missing", flag()),
        ErrorKind::MissingSubcommand if path.ends_with("reproduce") => {
            "a paper is missing; `suffrage-lab reproduce --help` lists them".to_string()
        }
        ErrorKind::MissingSubcommand if path.ends_with("config") => {
            "a subcommand is missing: `suffrage config check`".to_string()
        }
        ErrorKind::MissingSubcommand if path.ends_with("check") => {
            format!("an algorithm is missing; `{path} --help` lists them")
        }
        ErrorKind::MissingSubcommand => {
            "an algorithm is missing; `suffrage-lab algorithms` lists them".to_string()
        }
        ErrorKind::ArgumentConflict => match context(ContextKind::PriorArg) {
            Some(prior) if prior == flag() => format!("{}: is given twice", name()),
            Some(prior) => {
                let prior = prior.split([' ', '=']).next().unwrap_or_default();
                format!("{}: cannot be combined with {prior}", name())
            }
            None => format!("{}: cannot be combined with the other flags", name()),
        },
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_string()
        }
    }
}
