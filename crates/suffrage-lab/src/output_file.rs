//! Output files, whose errors name the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use suffrage_cli::Error;

/// A writer to a file. Its errors name the file.
pub(crate) struct FileWriter {
    path: PathBuf,
    out: BufWriter<File>,
}

/// Creates a file.
pub(crate) fn create(path: &Path) -> Result<FileWriter, Error> {
    let file = File::create(path).map_err(|error| Error::File(path.to_path_buf(), error))?;
    Ok(FileWriter { path: path.to_path_buf(), out: BufWriter::new(file) })
}

/// Writes a whole file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|error| Error::File(path.to_path_buf(), error))
}

impl FileWriter {
    fn name(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| self.name(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| self.name(error))
    }
}
