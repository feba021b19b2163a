//! Where output goes.

use std::fmt;
use std::io::Write;

/// Where output goes, and whether a person watches it arrive.
pub struct Console<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// Complaints and progress.
    pub err: &'a mut dyn Write,
    /// Whether results go to a terminal: only then may output take its time.
    pub out_is_terminal: bool,
    /// Whether complaints go to a terminal: only then is progress shown.
    pub err_is_terminal: bool,
}

impl<'a> Console<'a> {
    /// Output that nobody watches: a file, a pipe, a test.
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
