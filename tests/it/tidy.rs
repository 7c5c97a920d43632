//! The house inspects itself: what no compiler checks, and what reviewers would have to repeat.
//!
//! The rules are in docs/style.md; those that a machine can read are here, so that they hold
//! without anybody having to insist. Each rule is a function from text to complaints
//! ([`rules`]), with a test beside it that feeds it a bad text: a rule that finds nothing
//! proves nothing. This file walks the tree and hands it to the rules.
//!
//! What it does not do: it does not check what clippy, rustfmt and rustdoc check.

mod rules;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::rules::{Complaint, Page};

#[test]
fn source_files_keep_the_house_rules() {
    let promised = rules::promises(&read("docs/promises.md"));
    assert!(!promised.is_empty(), "docs/promises.md lists the promises");
    let mut complaints = Vec::new();
    let files = tree(&["rs"]);
    assert!(files.len() > 10, "the tree was found");
    for path in files {
        let text = read(&path);
        complaints.extend(rules::source(&path, &text));
        complaints.extend(rules::unknown_promises(&path, &text, &promised));
    }
    report(&complaints);
}

#[test]
fn settings_are_ascii_and_hold_no_leftovers() {
    let complaints: Vec<_> =
        tree(&["toml"]).iter().flat_map(|path| rules::plain(path, &read(path))).collect();
    report(&complaints);
}

#[test]
fn pages_have_one_title_and_are_linked_and_say_what_exists() {
    let promised = rules::promises(&read("docs/promises.md"));
    let pages = pages();
    let index = pages.iter().find(|page| page.path == "docs/README.md").expect("an index");
    let mut complaints = rules::unlinked(index, &pages);
    for page in &pages {
        complaints.extend(rules::title(page));
        complaints.extend(rules::unknown_promises(&page.path, &page.text, &promised));
        complaints.extend(rules::dead_references(page, |path| root().join(path).exists()));
        if page.path == "docs/faults.md" {
            let text = |path: &str| fs::read_to_string(root().join(path)).ok();
            complaints.extend(rules::dead_names(page, text));
        }
    }
    for path in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        let page = Page { path: path.to_owned(), text };
        complaints.extend(rules::title(&page));
        complaints.extend(rules::dead_references(&page, |path| root().join(path).exists()));
    }
    report(&complaints);
}

/// A file of the simulator that watches a promise is named after it: `p05_strict_order.rs`.
#[test]
fn every_watcher_watches_a_promise_and_every_promise_is_watched() {
    let path = "docs/promises.md".to_owned();
    let page = Page { text: read(&path), path };
    let promised = rules::promises(&page.text);
    let watchers: Vec<_> =
        tree(&["rs"]).into_iter().filter(|path| path.starts_with("sim/src/promises/")).collect();
    let mut complaints = rules::watchers(&watchers, &promised);
    complaints.extend(rules::unwatched(&page, &watchers));
    report(&complaints);
}

#[test]
fn crates_depend_on_what_they_may() {
    let mut complaints = Vec::new();
    for law in rules::LAWS {
        let tree = dependencies(law.of);
        assert!(tree.contains(law.of), "cargo tree shows {}", law.of);
        complaints.extend(rules::unlawful(law, &tree));
    }
    report(&complaints);
}

fn report(complaints: &[Complaint]) {
    let lines: Vec<_> = complaints.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} complaints:\n{}", lines.len(), lines.join("\n"));
}

fn pages() -> Vec<Page> {
    tree(&["md"])
        .into_iter()
        .filter(|path| path.starts_with("docs/"))
        .map(|path| Page { text: read(&path), path })
        .collect()
}

/// The files of the tree with one of these endings, by their path from the top.
fn tree(endings: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("a folder of the tree can be read");
        for entry in entries {
            let path = entry.expect("a folder of the tree can be read").path();
            if path.is_dir() {
                if !is_foreign(&path) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|end| endings.iter().any(|e| end == *e)) {
                let inside = path.strip_prefix(root()).expect("the walk began at the top");
                found.push(inside.to_str().expect("our file names are ASCII").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// What is in the tree and not of it: what was built, what git keeps, what a fuzzer found.
fn is_foreign(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "target" || name == "corpus" || name == "artifacts" || name.starts_with('.')
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("tests is a folder of the workspace").to_owned()
}

/// The names of everything that a crate is built from, itself included.
fn dependencies(of: &str) -> BTreeSet<String> {
    let arguments = ["tree", "--locked", "-e", "normal", "--prefix", "none", "-p", of];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("cargo, which runs this test, can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
