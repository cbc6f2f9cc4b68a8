//! Where reports are left.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The files of one report in one folder: each is there under the report's date, and
/// again as the latest.
#[derive(Clone, Debug)]
pub struct Saved {
    folder: PathBuf,
    prefix: String,
    date: String,
}

impl Saved {
    /// Files in `folder`, their names beginning with `prefix`, of a report of `date`.
    pub fn new(folder: &Path, prefix: &str, date: &str) -> Self {
        Self {
            folder: folder.into(),
            prefix: prefix.into(),
            date: date.replace(':', ""),
        }
    }

    /// Writes one of them; returns the name that has the date.
    pub fn write(&self, extension: &str, text: &str) -> Result<PathBuf> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        let path = |name: &str| {
            let name = format!("{}{name}.{extension}", self.prefix);
            self.folder.join(name)
        };
        let dated = path(&self.date);
        for path in [&dated, &path("latest")] {
            std::fs::write(path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(dated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_there_by_its_date_and_as_the_latest() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let saved = Saved::new(&folder, "sweep-", "2026-01-02T03:04:05Z");
        let path = saved.write("svg", "<svg/>").unwrap();
        assert_eq!(path, folder.join("sweep-2026-01-02T030405Z.svg"));
        for path in [path, folder.join("sweep-latest.svg")] {
            assert_eq!(std::fs::read_to_string(path).unwrap(), "<svg/>");
        }
        let file = folder.join("sweep-latest.svg");
        let error = Saved::new(&file, "", "x").write("json", "").unwrap_err();
        assert!(error.to_string().starts_with("cannot make"), "{error}");
    }
}
