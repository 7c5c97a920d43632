//! The store: redb behind four verbs, commit, scan, read and close.
//!
//! All rows lie in one table of bytes, in the order of their keys (`core/src/ledger/key.rs`).
//! What redb does not do for us stands here:
//!
//! - it syncs a file but not the directory that names it, so a new store could vanish with the
//!   power: `file.rs` makes a store under another name and syncs the directory;
//! - it opens a missing or emptied file as a new one: a sentinel beside the file, and the id of
//!   the store in both, make that an error, for an empty store would answer for messages that
//!   others think are here;
//! - it does not check what it reads: every message carries two checksums, checked at each read;
//! - it may panic on a damaged file: it is opened and used on threads whose death is an error.
//!
//! Invariants: a commit is durable when it returns, or the store is of no use any more: after a
//! failed fsync, pages that look clean may never have reached the disk. One writer at a time.
//!
//! What this room does not do: it knows no events, and decides nothing about a lost message.

mod change;
mod file;
mod reserve;
mod source;
mod threads;
mod used;

use std::fmt;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use gaggle_core::effect::Contents;
use gaggle_core::event::ScanEnd;
use gaggle_core::ledger::key::meta;
use gaggle_core::ledger::{Key, MessageKey, Row, record, row_part};
use gaggle_wire::Label;
use redb::{
    Builder, Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
};
use thiserror::Error;

pub use change::Change;
pub(crate) use file::{make_dir, write_durably};
pub(crate) use reserve::Reserve;
pub use source::StoreSource;
pub(crate) use threads::{Content, Threads, ThreadsEvent, Wanted, supervised};

use crate::entropy;
use change::{Rows, checked_content, is_whole};
use used::{Grown, Used};

/// Why a store cannot be used. Nothing that was confirmed before is lost by it.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The system refused a file or directory.
    #[error("{path}: {error}")]
    File {
        /// Which one.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
    /// The directory had a store whose file is gone.
    #[error(
        "{0} is missing, but there was a store here; put the file back, or remove the whole \
         directory to start as a new host"
    )]
    Missing(PathBuf),
    /// The file is a store without an id: it was emptied or never finished.
    #[error("{0} is not the store that was here: it is empty")]
    Emptied(PathBuf),
    /// The file and the sentinel are of two stores.
    #[error("{0} is not the store that was here: it has another id")]
    OtherStore(PathBuf),
    /// Another process has it open.
    #[error("the store is open in another process")]
    InUse,
    /// The row that names the store cannot be read.
    #[error("the id of the store is damaged")]
    BadId,
    /// redb or the disk below it failed. A commit under way may or may not be durable.
    #[error("the store failed: {0}")]
    Failed(#[from] redb::Error),
    /// redb panicked, as it may on a damaged file.
    #[error("the store is damaged: {0}")]
    Panicked(String),
    /// A message was to be written whose content is nowhere: core and runtime disagree.
    #[error("there is no content for the message {0:?}")]
    NoContent(Box<MessageKey>),
}

impl StoreError {
    /// Whether there is no room on the disk: that ends when somebody makes some.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let (Self::File { error, .. } | Self::Failed(redb::Error::Io(error))) = self else {
            return false;
        };
        matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    }
}

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Bytes of pages that redb keeps in memory.
    pub cache_bytes: usize,
    /// How a commit is made durable.
    pub phases: Phases,
}

impl StoreOptions {
    /// With so much memory for pages, and commits of one phase.
    #[must_use]
    pub const fn cached(cache_bytes: usize) -> Self {
        Self { cache_bytes, phases: Phases::One }
    }
}

/// How a commit is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phases {
    /// With one fsync. After a crash checksums (XXH3) tell whether the last commit is whole: who
    /// chooses what is stored, and when the machine crashes, might forge them.
    One,
    /// With two: pages first, then the word that they count. No checksum decides.
    Two,
}

/// Which rows to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The first key.
    pub(crate) from: Vec<u8>,
    /// The key before which to end.
    pub(crate) to: Vec<u8>,
    /// The most rows.
    pub(crate) limit: usize,
    /// Whether contents are read and checked.
    pub(crate) contents: Contents,
}

/// Rows that were read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// In key order, of messages only the headers.
    pub(crate) rows: Vec<Row>,
    /// Whether there are more.
    pub(crate) end: ScanEnd,
    /// Messages among them that are not whole, if that was checked.
    pub(crate) damaged: Vec<MessageKey>,
}

/// An open store.
pub struct Store {
    database: Database,
    phases: Phases,
    path: Option<PathBuf>,
    id: u128,
    used: Used,
}

impl Store {
    /// Opens a store on a backend: for tests, with disks that fail.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_backend(
        backend: impl StorageBackend,
        options: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let database = builder(options).create_with_backend(backend).map_err(open_error)?;
        let id = match id_of(&database)? {
            Some(id) => id,
            None => make_id(&database)?,
        };
        Ok(Self { database, phases: options.phases, path: None, id, used: Used::default() })
    }

    /// Which store this is.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Makes these changes durable, in order, all or none.
    ///
    /// # Errors
    /// See [`StoreError`]; the store is of no use any more, and the changes may be durable.
    pub fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let mut transaction = self.database.begin_write().map_err(redb::Error::from)?;
        transaction.set_durability(Durability::Immediate).map_err(redb::Error::from)?;
        transaction.set_two_phase_commit(self.phases == Phases::Two);
        let grown = {
            let mut rows = Rows::of(transaction.open_table(ROWS).map_err(redb::Error::from)?);
            for change in changes {
                rows.apply(change)?;
            }
            rows.grown()
        };
        transaction.commit().map_err(redb::Error::from)?;
        self.used.have_grown(grown);
        Ok(())
    }

    /// Rows of a range, and whether there are more.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(crate) fn scan(&self, scan: &Scan) -> Result<Page, StoreError> {
        let Scan { from, to, limit, contents } = scan;
        let mut page = Page { rows: Vec::new(), end: ScanEnd::Reached, damaged: Vec::new() };
        if from >= to {
            return Ok(page);
        }
        let mut bytes = 0;
        let transaction = self.database.begin_read().map_err(redb::Error::from)?;
        let table = transaction.open_table(ROWS).map_err(redb::Error::from)?;
        for row in table.range(&from[..]..&to[..]).map_err(redb::Error::from)? {
            if page.rows.len() == *limit || bytes > CHECKED_BYTES_MAX {
                page.end = ScanEnd::More;
                break;
            }
            let (key, value) = row.map_err(redb::Error::from)?;
            if let (Contents::Checked, Some(key)) = (contents, MessageKey::parse(key.value())) {
                bytes += value.value().len();
                if !is_whole(&key, value.value()) {
                    page.damaged.push(key);
                }
            }
            page.rows.push(to_row(key.value(), value.value()));
        }
        Ok(page)
    }

    /// Hands every row to `reader`, in key order, as an iterator that ends early on an error.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn read_all<T>(
        &self,
        reader: impl FnOnce(&mut dyn Iterator<Item = Row>) -> T,
    ) -> Result<T, StoreError> {
        let transaction = self.database.begin_read().map_err(redb::Error::from)?;
        let table = transaction.open_table(ROWS).map_err(redb::Error::from)?;
        let mut range = table.iter().map_err(redb::Error::from)?;
        let (mut failed, mut all) = (None, Grown::default());
        let read = reader(&mut std::iter::from_fn(|| match range.next()? {
            Ok((key, value)) => {
                all.add(key.value().len(), value.value().len());
                Some(to_row(key.value(), value.value()))
            }
            Err(error) => {
                failed = Some(redb::Error::from(error));
                None
            }
        }));
        if let Some(error) = failed {
            return Err(error.into());
        }
        if range.next().is_none() {
            self.used.are_read(all);
        }
        Ok(read)
    }

    /// The contents of messages; `None` where one is missing or damaged.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn read(&self, messages: &[(MessageKey, Label)]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let transaction = self.database.begin_read().map_err(redb::Error::from)?;
        let table = transaction.open_table(ROWS).map_err(redb::Error::from)?;
        messages
            .iter()
            .map(|(key, label)| {
                let value = table.get(&key.encode()[..]).map_err(redb::Error::from)?;
                Ok(value.and_then(|value| {
                    checked_content(key, label, value.value()).map(Bytes::copy_from_slice)
                }))
            })
            .collect()
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.file().map_or(0, |file| file.len())
    }

    /// Bytes on disk that no row takes: room for others. An estimate, and 0 until all rows were
    /// read.
    pub(crate) fn spare_bytes(&self) -> u64 {
        // Of a file with holes only what was written counts.
        self.file().map_or(0, |file| self.used.spare(file.blocks().saturating_mul(BLOCK)))
    }

    fn file(&self) -> Option<Metadata> {
        self.path.as_ref().and_then(|path| path.metadata().ok())
    }

    /// Closes it, so that the next opening has nothing to repair.
    ///
    /// # Errors
    /// [`StoreError::Failed`]; it is closed all the same.
    pub fn close(self) -> Result<(), StoreError> {
        self.database.close().map_err(open_error)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.path).field("id", &self.id).finish()
    }
}

fn to_row(key: &[u8], value: &[u8]) -> Row {
    Row { key: key.to_vec(), value: row_part(key, value).to_vec() }
}

fn builder(options: &StoreOptions) -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(options.cache_bytes);
    builder.set_repair_callback(|repair| {
        tracing::info!(
            percent = (repair.progress() * 100.0).round(),
            "the store was not closed; reading it before the node is ready"
        );
    });
    builder
}

/// The id of a store, if it has one.
fn id_of(database: &Database) -> Result<Option<u128>, StoreError> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let table = match transaction.open_table(ROWS) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(redb::Error::from(error).into()),
    };
    let key = Key::Meta(meta::STORE).encode();
    let value = table.get(&key[..]).map_err(redb::Error::from)?;
    value.map(|value| record::decode(value.value()).map_err(|_| StoreError::BadId)).transpose()
}

/// Gives a new store an id.
fn make_id(database: &Database) -> Result<u128, StoreError> {
    let random = entropy::bytes().map_err(|error| redb::Error::from(redb::StorageError::Io(error)));
    let id = u128::from_be_bytes(random?);
    let transaction = database.begin_write().map_err(redb::Error::from)?;
    {
        let mut table = transaction.open_table(ROWS).map_err(redb::Error::from)?;
        let key = Key::Meta(meta::STORE).encode();
        table.insert(&key[..], &record::encode(&id)[..]).map_err(redb::Error::from)?;
    }
    transaction.commit().map_err(redb::Error::from)?;
    Ok(id)
}

fn open_error(error: redb::DatabaseError) -> StoreError {
    match error {
        redb::DatabaseError::DatabaseAlreadyOpen => StoreError::InUse,
        error => StoreError::Failed(error.into()),
    }
}

/// Names the layout of keys and values too: another layout gets another table.
const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows-1");

/// The unit in which a file system counts the blocks of a file, in bytes.
const BLOCK: u64 = 512;

/// Contents that are checked in one go, so that other reads do not wait long.
const CHECKED_BYTES_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests;
