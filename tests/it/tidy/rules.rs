//! The rules of the house that a machine can read, as functions from text to complaints.
//!
//! Invariant: no rule reads a file, so each can be shown a bad text; the test of a rule stands
//! at the end and expects the complaint. The words that are searched for are put together here,
//! so that this file does not complain about itself.

use std::collections::BTreeSet;
use std::fmt;

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A page of documentation.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// What a crate must not be built from.
pub(crate) struct Law {
    pub(crate) of: &'static str,
    without: &'static [&'static str],
}

/// The walls of the house; docs/architecture.md says why they stand where they stand.
pub(crate) const LAWS: &[Law] = &[
    Law { of: "gaggle-wire", without: IO },
    Law { of: "gaggle-client-core", without: IO },
    Law { of: "gaggle-core", without: IO },
    Law { of: "gaggle-client", without: &["gaggle-core", "gaggle-node", "redb", "foca"] },
    Law { of: "gaggle-sim", without: &["gaggle-node", "gaggle-client", "tokio", "quinn", "redb"] },
];

const IO: &[&str] = &["tokio", "quinn", "redb", "mio", "socket2"];

/// All that is asked of a Rust file.
pub(crate) fn source(path: &str, text: &str) -> Vec<Complaint> {
    let mut found = plain(path, text);
    found.extend(header(path, text));
    found.extend(length(path, text));
    for (line, content) in numbered(text) {
        let mut complain = |what: String| found.push(complaint(path, line, what));
        if content.chars().count() > COLUMNS_MAX {
            complain(format!("more than {COLUMNS_MAX} columns"));
        }
        if content.trim_start().starts_with(concat!("#[", "allow(")) {
            complain("an exception is `expect` with a reason".to_owned());
        }
        if let Some(word) = declared(content).and_then(banned) {
            complain(format!("the word `{word}` is not used for our things (docs/glossary.md)"));
        }
    }
    found
}

/// What is asked of every text that we write for machines.
pub(crate) fn plain(path: &str, text: &str) -> Vec<Complaint> {
    let mut found = Vec::new();
    for (line, content) in numbered(text) {
        if !content.is_ascii() {
            found.push(complaint(path, line, "not ASCII"));
        }
        for leftover in LEFTOVERS {
            if content.contains(leftover) {
                found.push(complaint(path, line, format!("left over: {leftover}")));
            }
        }
    }
    found
}

/// The numbers of the promises that a page makes: its headings `## P1 ...`.
pub(crate) fn promises(page: &str) -> BTreeSet<u32> {
    page.lines()
        .filter_map(|line| line.strip_prefix("## P"))
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .collect()
}

/// Promises that are named and not made.
pub(crate) fn unknown_promises(path: &str, text: &str, made: &BTreeSet<u32>) -> Vec<Complaint> {
    let mut found = Vec::new();
    for (line, content) in numbered(text) {
        for word in content.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            let number = word.strip_prefix('P').and_then(|digits| digits.parse::<u32>().ok());
            if let Some(number) = number.filter(|number| !made.contains(number)) {
                found.push(complaint(path, line, format!("there is no promise P{number}")));
            }
        }
    }
    found
}

/// Files that watch a promise (`p05_strict_order.rs`) which is not made.
pub(crate) fn watchers(paths: &[String], made: &BTreeSet<u32>) -> Vec<Complaint> {
    let mut found = Vec::new();
    for path in paths {
        let name = path.rsplit('/').next().unwrap_or_default();
        let Some((number, _)) = name.strip_prefix('p').and_then(|rest| rest.split_once('_')) else {
            continue;
        };
        if number.parse::<u32>().is_ok_and(|number| !made.contains(&number)) {
            found.push(complaint(path, 1, format!("watches P{number}, which is not made")));
        }
    }
    found
}

/// Promises of a page that no file of the simulator watches, and that do not say so.
pub(crate) fn unwatched(page: &Page, paths: &[String]) -> Vec<Complaint> {
    let mut found = Vec::new();
    let mut lines = numbered(&page.text).peekable();
    while let Some((line, content)) = lines.next() {
        let Some(number) = promises(content).pop_first() else { continue };
        let mut later = false;
        while let Some((_, content)) = lines.next_if(|(_, content)| !content.starts_with("## ")) {
            later |= content.contains(WATCHED_LATER);
        }
        let start = format!("sim/src/promises/p{number:02}_");
        let watched = paths.iter().any(|path| path.starts_with(&start));
        if watched == later {
            let what =
                if watched { "is watched, and the page says" } else { "is not watched, nor" };
            found.push(complaint(&page.path, line, format!("P{number} {what} `{WATCHED_LATER}`")));
        }
    }
    found
}

/// A page has one title, and it is the first line.
pub(crate) fn title(page: &Page) -> Option<Complaint> {
    let titles = prose(&page.text).filter(|(_, line)| line.starts_with("# ")).count();
    let first = page.text.starts_with("# ");
    let wrong = titles != 1 || !first;
    wrong.then(|| complaint(&page.path, 1, format!("{titles} titles; one, on the first line")))
}

/// Pages of the folder of the index that nobody finds from there.
pub(crate) fn unlinked(index: &Page, pages: &[Page]) -> Vec<Complaint> {
    let linked: BTreeSet<_> = links(&index.text).map(|link| beside(&index.path, link)).collect();
    pages
        .iter()
        .filter(|page| page.path != index.path && !linked.contains(&page.path))
        .map(|page| complaint(&page.path, 1, format!("not linked from {}", index.path)))
        .collect()
}

/// Links to files, and paths of Rust files in backticks, that lead nowhere.
pub(crate) fn dead_references(page: &Page, exists: impl Fn(&str) -> bool) -> Vec<Complaint> {
    let mut found = Vec::new();
    for (line, content) in prose(&page.text) {
        let inside = links(content).map(|link| beside(&page.path, link));
        let named = content.split('`').skip(1).step_by(2);
        let named = named.filter(|code| code.contains('/') && code.ends_with(".rs"));
        for path in inside.chain(named.map(str::to_owned)) {
            if !exists(&path) {
                found.push(complaint(&page.path, line, format!("there is no {path}")));
            }
        }
    }
    found
}

/// Functions that a page names behind the path of a file in backticks, and that are not in it.
/// `read` gives the text of a file that exists.
pub(crate) fn dead_names(page: &Page, read: impl Fn(&str) -> Option<String>) -> Vec<Complaint> {
    let mut found = Vec::new();
    for (line, content) in prose(&page.text) {
        let mut parts = content.split('`');
        parts.next();
        while let (Some(code), Some(behind)) = (parts.next(), parts.next()) {
            let Some(text) = code.ends_with(".rs").then(|| read(code)).flatten() else { continue };
            let there: BTreeSet<&str> = names(&text).collect();
            for name in names(behind).filter(|name| name.contains('_')) {
                if !there.contains(name) {
                    found.push(complaint(&page.path, line, format!("{code} has no {name}")));
                }
            }
        }
    }
    found
}

/// What a crate is built from against the law.
pub(crate) fn unlawful(law: &Law, built_from: &BTreeSet<String>) -> Vec<Complaint> {
    law.without
        .iter()
        .filter(|name| built_from.contains(**name))
        .map(|name| complaint(law.of, 0, format!("must not be built from {name}")))
        .collect()
}

fn header(path: &str, text: &str) -> Option<Complaint> {
    let says_why = text.lines().next().is_some_and(|line| line.starts_with("//! "));
    (!says_why).then(|| complaint(path, 1, "a file opens with `//!` and says why it exists"))
}

fn length(path: &str, text: &str) -> Option<Complaint> {
    let is_test = path.starts_with("tests/") || path.ends_with("/tests.rs");
    let lines: Vec<_> = text.lines().collect();
    let tests_at = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod "))
        .unwrap_or(lines.len());
    let (count, cap) = if is_test { (lines.len(), TEST_LINES_MAX) } else { (tests_at, LINES_MAX) };
    (count > cap).then(|| {
        complaint(path, cap, format!("{count} lines; at most {cap}: which second noun moved in?"))
    })
}

/// The name that a line declares, if it declares one.
fn declared(line: &str) -> Option<&str> {
    const DECLARING: [&str; 7] = ["struct", "enum", "trait", "type", "fn", "mod", "const"];
    let mut words = line
        .split_whitespace()
        .skip_while(|word| word.starts_with("pub") || ["async", "unsafe", "extern"].contains(word));
    let keyword = words.next()?;
    let mut name = words.next()?;
    if !DECLARING.contains(&keyword) {
        return None;
    }
    if name == "fn" {
        name = words.next()?;
    }
    name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next()
}

/// The first word in a name that is not for our things.
fn banned(name: &str) -> Option<&'static str> {
    if name.starts_with("get_") {
        return Some("get_");
    }
    let mut words = vec![String::new()];
    for c in name.chars() {
        let begins = c == '_' || (c.is_ascii_uppercase() && name.contains(char::is_lowercase));
        if begins {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().expect("one word at least").push(c.to_ascii_lowercase());
        }
    }
    BANNED.iter().find(|word| words.iter().any(|w| w == *word)).copied()
}

/// The lines of a page that are not drawn or quoted between fences.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    numbered(text).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The targets of links to files of ours, without the section.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| !link.contains("://") && !link.starts_with('#'))
        .filter_map(|link| link.split('#').next())
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

/// The path of a link that stands on a page.
fn beside(page: &str, link: &str) -> String {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

fn complaint(path: &str, line: usize, what: impl Into<String>) -> Complaint {
    Complaint { path: path.to_owned(), line, what: what.into() }
}

/// How the page of promises marks one for which no watcher is built yet.
const WATCHED_LATER: &str = "Watched: later.";

/// Two files fit beside each other on a screen.
const COLUMNS_MAX: usize = 100;

/// Half an hour of reading. Above it a file is about two things.
const LINES_MAX: usize = 500;

/// Tests are read one at a time, so a file of them may be longer.
const TEST_LINES_MAX: usize = 600;

/// What is written to be done later and is then forgotten.
const LEFTOVERS: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X:"),
    concat!("dbg", "!("),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("#[", "ignore"),
];

/// Names that say nothing, and words of other houses that mean something else here.
const BANNED: &[&str] = &[
    "manager",
    "handler",
    "util",
    "utils",
    "helper",
    "helpers",
    "context",
    "base",
    "info",
    "leader",
    "primary",
    "owner",
    "topic",
    "publish",
    "publisher",
    "ack",
    "nack",
];

mod tests;
