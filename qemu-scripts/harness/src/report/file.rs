//! The report's file. Every piece is in it as soon as it is known.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// What goes before everything that failed, for whoever searches for it.
const FAILED: &str = "FAILED";

/// A file that grows.
#[derive(Debug)]
pub struct ReportFile {
    file: File,
    path: PathBuf,
}

impl ReportFile {
    /// A new file; nothing that is there already is overwritten.
    pub fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        match file {
            Ok(file) => Ok(Self {
                file,
                path: path.into(),
            }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
                "{} is there already: give --out another name",
                path.display()
            ),
            Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// A second hand on the same file.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self {
            file: self.file.try_clone()?,
            path: self.path.clone(),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) -> Result<()> {
        self.write(&format!("\n=== {title}\n\n"))
    }

    /// Adds `text` as lines of its own; whether it ends with a line's end is all the same.
    pub fn add(&mut self, text: &str) -> Result<()> {
        self.write(&format!("{}\n", text.strip_suffix('\n').unwrap_or(text)))
    }

    /// Adds what has failed, and why.
    pub fn add_failure(&mut self, what: &str, why: &str) -> Result<()> {
        self.add(&format!("{FAILED}: {what}: {why}"))
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.file
            .write_all(text.as_bytes())
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_there_at_once_and_no_file_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.txt");
        let mut file = ReportFile::create(&path).unwrap();
        file.section("Pings").unwrap();
        file.add("1 of 1\n").unwrap();
        let mut second = file.try_clone().unwrap();
        second.add_failure("ping", "no answer").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "\n=== Pings\n\n1 of 1\nFAILED: ping: no answer\n");
        let error = ReportFile::create(&path).unwrap_err().to_string();
        assert!(error.contains("--out"), "{error}");
    }
}
