//! The files of a store, and how it comes into being without a moment in which it is half there.
//!
//! ```text
//!   store.new     a store that is being made; of no worth, removed at the next start
//!   store.redb    the store
//!   store.id      the sentinel: the id of the store, in hex
//! ```
//!
//! A new store gets its id while it still has its temporary name, is synced, renamed, and the
//! directory is synced; only then is the sentinel written. So whoever finds the sentinel may
//! demand the store, and a store without a sentinel (the power failed in between) has an id.
//!
//! What this file does not do: it copies and restores nothing.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::used::Used;
use super::{Store, StoreError, StoreOptions, builder, id_of, make_id, open_error};

impl Store {
    /// Opens the store in this directory, or makes both.
    ///
    /// # Errors
    /// See [`StoreError`]; nothing that was there is changed.
    pub fn open(dir: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        make_dir(dir)?;
        let path = dir.join(STORE);
        let sentinel = read_sentinel(dir)?;
        if !path.exists() {
            if sentinel.is_some() {
                return Err(StoreError::Missing(path));
            }
            make_store(dir, options)?;
        }
        let database = builder(options).open(&path).map_err(open_error)?;
        let id = id_of(&database)?.ok_or_else(|| StoreError::Emptied(path.clone()))?;
        match sentinel {
            Some(there) if there != id => return Err(StoreError::OtherStore(path)),
            Some(_) => {}
            None => write_durably(dir, SENTINEL, format!("{id:032x}\n").as_bytes())?,
        }
        let path = Some(path);
        Ok(Self { database, phases: options.phases, path, id, used: Used::default() })
    }

    /// Whether there is a store in this directory.
    pub(crate) fn is_in(dir: &Path) -> bool {
        dir.join(STORE).exists()
    }

    /// Makes the system forget what it believes to have written: after a failed fsync its pages
    /// may look clean and never have reached the disk. To be called when the store is closed.
    pub(crate) fn forget_pages(dir: &Path) {
        let path = dir.join(STORE);
        let forgotten = File::open(&path).and_then(|file| {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
                .map_err(io::Error::from)
        });
        if let Err(error) = forgotten {
            tracing::warn!(path = %path.display(), %error, "cannot drop cached pages");
        }
    }
}

/// Writes a small file of the node so that it is there whole or not at all, readable by nobody
/// else.
pub(crate) fn write_durably(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let (path, new) = (dir.join(name), dir.join(format!("{name}.new")));
    remove(&new)?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .map_err(|error| StoreError::File { path: new.clone(), error })?;
    fs::rename(&new, &path).map_err(|error| StoreError::File { path, error })?;
    sync_dir(dir)
}

fn make_store(dir: &Path, options: &StoreOptions) -> Result<(), StoreError> {
    let (path, new) = (dir.join(STORE), dir.join("store.new"));
    remove(&new)?;
    let database = builder(options).create(&new).map_err(open_error)?;
    make_id(&database)?;
    database.close().map_err(open_error)?;
    File::open(&new)
        .and_then(|file| file.sync_all())
        .map_err(|error| StoreError::File { path: new.clone(), error })?;
    fs::rename(&new, &path).map_err(|error| StoreError::File { path, error })?;
    sync_dir(dir)
}

/// Makes a directory that nobody else can read, so that it stays.
pub(crate) fn make_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    let failed = |error| StoreError::File { path: dir.to_owned(), error };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    sync_dir(parent_of(dir))
}

fn parent_of(dir: &Path) -> &Path {
    dir.parent().filter(|parent| *parent != Path::new("")).unwrap_or_else(|| Path::new("."))
}

fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| StoreError::File { path: dir.to_owned(), error })
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::File { path: path.to_owned(), error })
        }
        _ => Ok(()),
    }
}

fn read_sentinel(dir: &Path) -> Result<Option<u128>, StoreError> {
    let path: PathBuf = dir.join(SENTINEL);
    match fs::read_to_string(&path) {
        Ok(text) => u128::from_str_radix(text.trim(), 16).map(Some).map_err(|_| StoreError::BadId),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::File { path, error }),
    }
}

const STORE: &str = "store.redb";
const SENTINEL: &str = "store.id";
