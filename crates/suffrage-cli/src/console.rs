//! The output of a command.

use std::fmt;
use std::io::Write;

/// The standard output and standard error of a command.
pub struct Console<'a> {
    /// Standard output, for results.
    pub out: &'a mut dyn Write,
    /// Standard error, for errors and progress.
    pub err: &'a mut dyn Write,
    /// Whether standard output is a terminal: only then is output animated.
    pub out_is_terminal: bool,
    /// Whether standard error is a terminal: only then is progress shown.
    pub err_is_terminal: bool,
}

impl<'a> Console<'a> {
    /// Output to a file, a pipe or a test.
    pub fn plain(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Console<'a> {
        Console { out, err, out_is_terminal: false, err_is_terminal: false }
    }
}

impl fmt::Debug for Console<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("out_is_terminal", &self.out_is_terminal)
            .field("err_is_terminal", &self.err_is_terminal)
            .finish_non_exhaustive()
    }
}
