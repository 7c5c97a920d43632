//! The reserve: a file beside the store that takes room so that it can give it back.
//!
//! A store must write before it can remove anything, so a disk that others have filled to the last
//! byte could not even be emptied (F13). When a commit finds no room the reserve is removed and the
//! store opened again. The core is told of a disk without room until there is one again, and so
//! takes nothing new: what the reserve gave is for deletes.
//!
//! What no row takes of the store's file is room like what the disk has free, for the file does
//! not become shorter when messages are deleted. But pages that lie apart may not do for what
//! comes, and then the file grows: half of what keeps a disk from counting as full must be free on
//! the disk itself.
//!
//! Invariant: there is a reserve, or the disk counts as full; but where the file system cannot set
//! room aside there is none, which is said once.
//! What this file does not do: it decides nothing about messages (`core/src/space.rs`).

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use gaggle_core::full_below;
use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// The reserve of one store.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Where it lies; nowhere for a store that has no directory.
    dir: Option<PathBuf>,
    /// Whether the file system can set room aside.
    possible: bool,
}

/// How much room there is, in bytes; nothing is known of a disk of 0 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// What a process without privileges may still write, and what is free within the store; 0
    /// without a reserve.
    pub(crate) free: u64,
    /// That, and what is in use.
    pub(crate) total: u64,
}

impl Reserve {
    /// That of the store in this directory.
    pub(crate) fn of(dir: Option<PathBuf>) -> Self {
        Self { dir, possible: true }
    }

    /// How much room there is now, with so many bytes that are free within the store. The reserve
    /// is made again if there is enough for it.
    pub(crate) fn measure(&mut self, spare: u64) -> Measured {
        let Some(dir) = &self.dir else { return Measured::default() };
        match measure(dir) {
            Ok(measured) => self.keep(&dir.join(RESERVE), measured).and_spare(spare),
            Err(error) => {
                tracing::warn!(dir = %dir.display(), %error, "cannot tell how full the disk is");
                Measured::default()
            }
        }
    }

    /// Whether there is so little room that the disk counts as full, as far as can be told.
    pub(crate) fn is_short(&self, spare: u64) -> bool {
        let measured = self.dir.as_ref().and_then(|dir| measure(dir).ok());
        measured.is_some_and(|measured| measured.and_spare(spare).is_full())
    }

    /// Makes the reserve if it is not there and this is room enough; what there is for the core.
    fn keep(&mut self, path: &Path, measured: Measured) -> Measured {
        if !self.possible || path.exists() {
            return measured;
        }
        let bytes = BYTES_MAX.min(measured.total / 16);
        if measured.free < measured.least() + bytes {
            return Measured { free: 0, ..measured };
        }
        self.make(path, bytes);
        measured
    }

    fn make(&mut self, path: &Path, bytes: u64) {
        let open = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let made = open.and_then(|file| {
            fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
            file.sync_all()
        });
        if let Err(error) = made {
            self.possible = false;
            tracing::warn!(%error, "no room can be set aside for deletes on a full disk");
            remove(path);
        }
    }

    /// Gives back what was set aside; whether there was anything.
    pub(crate) fn spend(&self) -> bool {
        self.dir.as_ref().is_some_and(|dir| remove(&dir.join(RESERVE)))
    }
}

impl Measured {
    /// What must be free on the disk itself.
    fn least(self) -> u64 {
        full_below(self.total) / 2
    }

    /// Whether the disk counts as full.
    pub(crate) fn is_full(self) -> bool {
        self.free < full_below(self.total)
    }

    /// With so many bytes that are free within the store.
    fn and_spare(self, spare: u64) -> Self {
        let spare = if self.free < self.least() { 0 } else { spare };
        Self { free: self.free.saturating_add(spare), ..self }
    }
}

fn remove(path: &Path) -> bool {
    match fs::remove_file(path) {
        Ok(()) => true,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "cannot give back the reserve");
            }
            false
        }
    }
}

fn measure(dir: &Path) -> io::Result<Measured> {
    let told = statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(told.f_frsize);
    let used = told.f_blocks.saturating_sub(told.f_bfree);
    Ok(Measured { free: bytes(told.f_bavail), total: bytes(used.saturating_add(told.f_bavail)) })
}

const RESERVE: &str = "reserve";
/// The most bytes that are set aside; of a small disk it is a sixteenth. A commit of many deletes
/// writes a page for nearly each of them before any is free again: a hundredth of 96 MiB was not
/// enough for deletes of messages of 64 KiB under load.
const BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn it_is_made_where_there_is_room_and_gives_its_bytes_back_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RESERVE);
        let mut reserve = Reserve::of(Some(dir.path().to_owned()));
        let of_160 = |free| Measured { free: free * MIB, total: 160 * MIB };
        // It is full below 40, half of that must be free, and a sixteenth is set aside.
        assert_eq!(reserve.keep(&path, of_160(29)), of_160(0));
        assert!(!path.exists() && !reserve.spend());
        assert_eq!(reserve.keep(&path, of_160(30)), of_160(30));
        assert_eq!(path.metadata().unwrap().len(), 10 * MIB);
        assert_eq!(reserve.keep(&path, of_160(3)), of_160(3), "it is kept until it is needed");
        assert!(reserve.spend());
        assert_eq!(reserve.keep(&path, of_160(13)), of_160(0), "what it gave is for deletes");
        assert!(!path.exists() && !reserve.spend());
    }

    #[test]
    fn what_is_free_within_the_store_is_room_while_the_disk_has_some() {
        let of_160 = |free| Measured { free: free * MIB, total: 160 * MIB };
        let told = [0, 19, 20, 100].map(|free| of_160(free).and_spare(50 * MIB));
        assert_eq!(told, [0, 19, 70, 150].map(of_160));
        assert_eq!(told.map(Measured::is_full), [true, true, false, false]);
    }

    #[test]
    fn a_disk_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let Measured { free, total } = measure(dir.path()).unwrap();
        assert!(total > 0 && total >= free, "{free} of {total}");
    }

    #[test]
    fn nothing_is_known_of_a_store_without_a_directory() {
        let mut reserve = Reserve::of(None);
        assert_eq!(reserve.measure(7), Measured::default());
        assert!(!reserve.spend());
    }
}
