//! Plans in files, as TOML: kept for what once failed, and read by who has to understand it.

use std::fs;
use std::path::{Path, PathBuf};

use super::Plan;

/// Why a plan could not be read or written.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    why: String,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for FileError {}

impl Plan {
    /// The plan as text.
    ///
    /// # Panics
    /// Never: every plan can be written.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan has no map with keys that are no words")
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// When the text is none, with the line.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Reads a plan from a file.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let failed = |why| FileError { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Self::from_toml(&text).map_err(failed)
    }

    /// Writes a plan to a file.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        fs::write(path, self.to_toml())
            .map_err(|error| FileError { path: path.to_owned(), why: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::draw;

    #[test]
    fn every_plan_is_the_same_after_it_was_written_and_read() {
        for seed in 0..200 {
            let plan = draw(seed);
            assert_eq!(Plan::from_toml(&plan.to_toml()).as_ref(), Ok(&plan));
        }
    }

    /// Each once failed; its first lines say how.
    #[test]
    fn every_kept_plan_passes() {
        let plans = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/plans")).unwrap();
        let paths: Vec<PathBuf> = plans.map(|entry| entry.unwrap().path()).collect();
        assert!(!paths.is_empty());
        for path in paths {
            let plan = Plan::load(&path).unwrap_or_else(|error| panic!("{error}"));
            let failure = crate::storm::run(&plan, crate::Detail::Off).failure;
            assert!(failure.is_none(), "{}: {failure:?}", path.display());
        }
    }

    #[test]
    fn a_word_that_no_plan_has_is_refused() {
        let text = draw(1).to_toml().replace("storm_ms", "strom_ms");
        assert!(Plan::from_toml(&text).is_err());
        let text = format!("{}\n[[deeds]]\nat_ms = 1\ndeed.crash.nod = 1\n", draw(1).to_toml());
        assert!(Plan::from_toml(&text).is_err());
    }
}
