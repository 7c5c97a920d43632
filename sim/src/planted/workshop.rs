//! The workshop: a copy of the core and the simulator, in which a patch is applied and built.
//!
//! It lies in the target directory, holds the four crates that a simulator is made of, and has
//! one target directory of its own: from one patch to the next only the core and what is built
//! on it are built again. A file that does not change keeps its time.
//!
//! What this file does not do: it never writes outside its directory.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::hunt::{Found, Hunt};

/// A directory with a copy of what the simulator is built from.
#[derive(Debug)]
pub struct Workshop {
    tree: PathBuf,
    build: PathBuf,
    programs: PathBuf,
}

/// What went wrong in the workshop.
#[derive(Debug)]
pub struct WorkshopError(String);

impl std::fmt::Display for WorkshopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WorkshopError {}

impl Workshop {
    /// The workshop in the target directory from which this program was started.
    ///
    /// # Errors
    /// When that is not known.
    pub fn beside_this_program() -> Result<Self, WorkshopError> {
        let program = std::env::current_exe().map_err(|error| failed("this program", &error))?;
        let target = program.ancestors().nth(2).unwrap_or_else(|| Path::new("target"));
        let shop = target.join("planted");
        Ok(Self {
            tree: shop.join("tree"),
            build: shop.join("build"),
            programs: shop.join("programs"),
        })
    }

    /// Builds the simulator with a patched core, under this name.
    ///
    /// # Errors
    /// When the patch does not apply, or the build fails.
    pub fn build(&self, name: &str, patch: &str) -> Result<(), WorkshopError> {
        self.lay_out().map_err(|error| failed(&self.tree.display().to_string(), &error))?;
        apply(&self.tree, patch, Apply::Really)?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["build", "--release", "--offline", "--quiet", "-p", "gaggle-sim"])
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.build)
            .output()
            .map_err(|error| failed("cargo", &error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(WorkshopError(format!("the patched core does not build:\n{said}")));
        }
        let built = self.build.join("release/gaggle-sim");
        fs::create_dir_all(&self.programs)
            .and_then(|()| fs::copy(&built, self.programs.join(name)))
            .map_err(|error| failed(name, &error))?;
        Ok(())
    }

    /// Has the simulator hunt that was built under this name.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn hunt(&self, name: &str, hunt: &Hunt) -> Result<Option<Found>, WorkshopError> {
        let program = self.programs.join(name);
        let mut command = Command::new(&program);
        command.arg("first");
        for (option, value) in [("--from", hunt.from), ("--to", hunt.to)] {
            command.args([option, &value.to_string()]);
        }
        command.args(["--jobs", &hunt.jobs.to_string()]);
        hunt.besides.iter().for_each(|sign| {
            command.args(["--besides", sign]);
        });
        let output =
            command.output().map_err(|error| failed(&program.display().to_string(), &error))?;
        if output.status.success() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let found = said.lines().last().and_then(Found::parse);
        found.map(Some).ok_or_else(|| WorkshopError(format!("the hunt ended with: {said}")))
    }

    /// Copies what differs, and removes what is no more.
    fn lay_out(&self) -> io::Result<()> {
        let root = root();
        let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
        put(&self.tree.join("Cargo.toml"), only_members(&manifest).as_bytes())?;
        put(&self.tree.join("Cargo.lock"), &fs::read(root.join("Cargo.lock"))?)?;
        MEMBERS.iter().try_for_each(|member| copy(&root.join(member), &self.tree.join(member)))
    }
}

/// Whether a patch is to be applied or only looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Apply {
    Really,
    Check,
}

/// Applies a patch to the files of a directory.
pub(super) fn apply(tree: &Path, patch: &str, how: Apply) -> Result<(), WorkshopError> {
    let mut git = Command::new("git");
    git.arg("apply").args((how == Apply::Check).then_some("--check"));
    // Outside of a repository git takes the paths of a patch as they are.
    let above = tree.parent().unwrap_or(tree);
    git.current_dir(tree).env("GIT_CEILING_DIRECTORIES", above).stdin(Stdio::piped());
    git.stderr(Stdio::piped());
    let run = || -> io::Result<std::process::Output> {
        let mut child = git.spawn()?;
        let mut stdin = child.stdin.take().expect("it is a pipe");
        stdin.write_all(patch.as_bytes())?;
        drop(stdin);
        child.wait_with_output()
    };
    let output = { run }().map_err(|error| failed("git apply", &error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(WorkshopError(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The root of the workspace.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is a member")
}

/// The manifest of a workspace that has only the members of the workshop.
fn only_members(manifest: &str) -> String {
    let list: Vec<String> = MEMBERS.iter().map(|member| format!("\"{member}\"")).collect();
    let mut lines = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        match line {
            "members = [" => {
                inside = true;
                lines.push(format!("members = [{}]", list.join(", ")));
            }
            "]" if inside => inside = false,
            _ if inside || line.starts_with("default-members") => {}
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

/// Copies a directory, without members inside of it that have their own copy.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        names.insert(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            put(&target, &fs::read(entry.path())?)?;
        }
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !names.contains(&entry.file_name()) {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
    }
    Ok(())
}

/// Writes a file, unless it is so already.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().expect("it is in a directory"))?;
    fs::write(path, bytes)
}

fn failed(what: &str, error: &io::Error) -> WorkshopError {
    WorkshopError(format!("{what}: {error}"))
}

/// What a simulator is made of.
const MEMBERS: [&str; 4] = ["client/core", "client/wire", "node/core", "sim"];
