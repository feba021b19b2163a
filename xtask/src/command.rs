//! Running other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::background::Jobs;
use crate::root;

/// A command that runs in the root of the workspace, or in another folder.
pub(crate) struct Job {
    words: Vec<String>,
    folder: PathBuf,
    variables: Vec<(&'static str, String)>,
    jobs: Jobs,
}

/// A cargo command.
pub(crate) fn cargo(arguments: &[&str]) -> Job {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    Job::new(std::iter::once(cargo).chain(arguments.iter().map(|argument| argument.to_string())))
}

/// A git command.
pub(crate) fn git(arguments: &[&str]) -> Job {
    Job::new(std::iter::once("git").chain(arguments.iter().copied()).map(String::from))
}

/// Any other program.
pub(crate) fn program(words: &[&str]) -> Job {
    Job::new(words.iter().map(|word| word.to_string()))
}

impl Job {
    fn new(words: impl Iterator<Item = String>) -> Job {
        Job {
            words: words.collect(),
            folder: root().to_path_buf(),
            variables: Vec::new(),
            jobs: Jobs::default(),
        }
    }

    /// Runs the command in this folder.
    pub(crate) fn within(mut self, folder: &Path) -> Job {
        self.folder = folder.to_path_buf();
        self
    }

    /// Runs the command only when no other one needs the processor.
    pub(crate) fn nice(mut self) -> Job {
        self.words.splice(0..0, ["nice", "-n", "19"].map(String::from));
        self
    }

    /// Makes the command one of these jobs: `run` and `report` end with them.
    pub(crate) fn among(mut self, jobs: &Jobs) -> Job {
        self.jobs = jobs.clone();
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Job {
        self.variables.push((name, value.to_string()));
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir(&self.folder);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn display(&self) -> String {
        let program = Path::new(&self.words[0]).file_name().unwrap_or_default().to_string_lossy();
        format!("{program} {}", self.words[1..].join(" "))
    }

    /// Runs the command. Its output is shown.
    pub(crate) fn run(&self) -> Result<(), String> {
        let ended = self.jobs.run(self.command().stdin(Stdio::inherit()));
        let (status, _) = ended.map_err(|error| format!("{}: {error}", self.display()))?;
        if status.success() { Ok(()) } else { Err(format!("`{}` failed", self.display())) }
    }

    /// Runs the command and returns its output. Its standard error is shown.
    pub(crate) fn report(&self) -> Result<String, String> {
        let ended = self.jobs.run(self.command().stdin(Stdio::null()).stdout(Stdio::piped()));
        let (status, stdout) = ended.map_err(|error| format!("{}: {error}", self.display()))?;
        if !status.success() {
            return Err(format!("`{}` failed", self.display()));
        }
        String::from_utf8(stdout).map_err(|_| format!("`{}` printed no UTF-8", self.display()))
    }

    /// Runs the command and returns its output.
    pub(crate) fn output(&self) -> Result<String, String> {
        let output = self.command().output().map_err(|error| format!("{}: {error}", self.display()))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{}` failed:\n{errors}", self.display()));
        }
        String::from_utf8(output.stdout).map_err(|_| format!("`{}` printed no UTF-8", self.display()))
    }

    /// Runs the command and returns its output, whatever its exit code is.
    pub(crate) fn printed(&self) -> Result<String, String> {
        let output = self.command().output().map_err(|error| format!("{}: {error}", self.display()))?;
        String::from_utf8(output.stdout).map_err(|_| format!("`{}` printed no UTF-8", self.display()))
    }

    /// Whether the command runs and succeeds.
    pub(crate) fn works(&self) -> bool {
        self.command().output().is_ok_and(|output| output.status.success())
    }
}
