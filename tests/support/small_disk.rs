//! A disk that is soon full: a file system in memory, of so many bytes, mounted at a directory.
//!
//! Needs root. Where it cannot be mounted the caller is told why, and decides. It is unmounted when
//! this is dropped. What this file does not do: it starts no nodes, and loses no power.

use std::fs::{File, remove_file};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted disk.
#[derive(Debug)]
pub struct SmallDisk {
    dir: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of so many bytes at a directory, which is made if it is not there.
    ///
    /// # Errors
    /// Why this machine cannot: who runs the tests is not root, or may not mount.
    pub fn mount(dir: &Path, bytes: u64) -> Result<Self, String> {
        std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        let size = format!("size={bytes},mode=0700");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir))?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Somebody else writes so many bytes to it, or as many as there is room for.
    ///
    /// # Panics
    /// When they cannot, though there is room.
    pub fn fill(&self, bytes: u64) {
        let mut file = File::create(self.others()).expect("a file takes no room");
        let block = [7; BLOCK];
        for _ in 0..bytes / BLOCK as u64 {
            match file.write_all(&block) {
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                written => written.expect("there is room"),
            }
        }
    }

    /// What somebody else has written is gone.
    ///
    /// # Panics
    /// When it is not there.
    pub fn clear(&self) {
        remove_file(self.others()).expect("it was filled");
    }

    fn others(&self) -> PathBuf {
        self.dir.join("others")
    }
}

/// Bytes that are written at once.
const BLOCK: usize = 4096;

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that a failed test left behind may have it open.
        if let Err(why) = run(Command::new("umount").arg("--lazy").arg(&self.dir)) {
            eprintln!("{} stays mounted: {why}", self.dir.display());
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
