//! Where a store comes from, so that it can be opened again after it failed.
//!
//! What this file does not do: it does not say when that is; the driver does.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Reserve, Store, StoreError, StoreOptions};

/// A place that has a store.
#[derive(Clone)]
pub struct StoreSource {
    open: Arc<dyn Fn() -> Result<Store, StoreError> + Send + Sync>,
    dir: Option<PathBuf>,
}

impl StoreSource {
    /// The store in this directory.
    #[must_use]
    pub fn in_dir(dir: &Path, options: StoreOptions) -> Self {
        let owned = dir.to_owned();
        let open = Arc::new(move || Store::open(&owned, &options));
        Self { open, dir: Some(dir.to_owned()) }
    }

    /// Whatever this opens, time and again: for tests, with disks that fail.
    pub fn new(open: impl Fn() -> Result<Store, StoreError> + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open), dir: None }
    }

    /// Opens it; on a full disk with the room that was set aside.
    pub(crate) fn open(&self) -> Result<Store, StoreError> {
        match (self.open)() {
            Err(error) if error.is_full() && self.reserve().spend() => (self.open)(),
            opened => opened,
        }
    }

    /// What is set aside beside it for a full disk.
    pub(crate) fn reserve(&self) -> Reserve {
        Reserve::of(self.dir.clone())
    }

    /// Makes the system forget what it believes to have written of it.
    pub(crate) fn forget_pages(&self) {
        if let Some(dir) = &self.dir {
            Store::forget_pages(dir);
        }
    }
}

impl fmt::Debug for StoreSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSource").field("dir", &self.dir).finish_non_exhaustive()
    }
}
