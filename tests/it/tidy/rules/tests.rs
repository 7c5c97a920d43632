//! Each rule is shown a text that breaks it, and must complain; and one that keeps it.

use super::*;

const GOOD: &str = "//! Why this file exists.\n\npub fn send() {}\n";

fn whats(complaints: impl IntoIterator<Item = Complaint>) -> Vec<String> {
    complaints.into_iter().map(|complaint| complaint.what).collect()
}

/// The one complaint about a good file with this line added.
fn about(line: &str) -> String {
    let found = whats(source("node/src/x.rs", &format!("{GOOD}{line}\n")));
    assert_eq!(found.len(), 1, "{line}: {found:?}");
    found[0].clone()
}

fn made() -> BTreeSet<u32> {
    promises("# Promises\n\n## P1 No loss\n\n## P14 One sick clock\n")
}

fn page(path: &str, text: &str) -> Page {
    Page { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn a_good_file_is_left_alone() {
    assert!(source("node/src/x.rs", GOOD).is_empty());
    let exact = format!("{GOOD}// {}\n", "x".repeat(COLUMNS_MAX - 3));
    assert!(source("node/src/x.rs", &exact).is_empty());
}

#[test]
fn a_file_without_a_header_is_complained_about() {
    let found = whats(source("node/src/x.rs", "use std::fmt;\n"));
    assert!(found[0].contains("opens with"), "{found:?}");
    assert_eq!(source("node/src/x.rs", "").len(), 1);
}

#[test]
fn a_long_line_is_complained_about() {
    assert!(about(&format!("// {}", "x".repeat(COLUMNS_MAX - 2))).contains("columns"));
}

#[test]
fn a_letter_beyond_ascii_is_complained_about() {
    assert!(about("// na\u{ef}ve").contains("ASCII"));
}

#[test]
fn leftovers_are_complained_about() {
    for leftover in LEFTOVERS {
        assert!(about(&format!("    {leftover} x")).contains("left over"), "{leftover}");
    }
}

#[test]
fn an_exception_without_a_reason_is_complained_about() {
    assert!(about(concat!("#[", "allow(dead_code)]")).contains("reason"));
}

#[test]
fn banned_words_are_complained_about_where_we_name_things() {
    for line in [
        "pub struct QueueManager {",
        "pub(crate) enum LeaderState {",
        "mod utils;",
        "    async fn get_queue(&self) {",
        "pub const fn publish_now() {",
        "const BASE: u32 = 1;",
        "type Owner = u64;",
    ] {
        assert!(about(line).contains("not used for our things"), "{line}");
    }
    for line in [
        "use std::task::Context;",
        "// There is no leader and no primary.",
        "pub struct Feedback;",
        "fn encode_base64() {}",
        "let info = 1;",
    ] {
        assert!(source("node/src/x.rs", &format!("{GOOD}{line}\n")).is_empty(), "{line}");
    }
}

#[test]
fn a_file_above_the_cap_is_complained_about() {
    let lines = |count: usize| format!("//! Why.\n{}", "// x\n".repeat(count - 1));
    assert!(source("node/src/x.rs", &lines(LINES_MAX)).is_empty());
    assert_eq!(source("node/src/x.rs", &lines(LINES_MAX + 1)).len(), 1);
    // Tests at the end do not count, and a file of tests has its own cap.
    let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(LINES_MAX), lines(300));
    assert!(source("node/src/x.rs", &with_tests).is_empty());
    let with_a_test_import = with_tests.replace("mod tests {", "use std::fmt;");
    assert_eq!(source("node/src/x.rs", &with_a_test_import).len(), 1);
    for path in ["tests/it/x.rs", "node/src/x/tests.rs"] {
        assert!(source(path, &lines(TEST_LINES_MAX)).is_empty());
        assert_eq!(source(path, &lines(TEST_LINES_MAX + 1)).len(), 1);
    }
}

#[test]
fn a_promise_that_is_not_made_is_complained_about() {
    assert_eq!(made(), BTreeSet::from([1, 14]));
    let number = 15;
    let text = format!("// holds P1, P{number} and (P2)\n");
    let found = whats(unknown_promises("x.rs", &text, &made()));
    assert_eq!(found, [15, 2].map(|number| format!("there is no promise P{number}")));
    let others = "// P-256 is a curve, p99 a quantile, PKCS_P256 a name, P1 and P14 promises\n";
    assert!(unknown_promises("x.rs", others, &made()).is_empty());
}

#[test]
fn a_watcher_of_no_promise_is_complained_about() {
    let paths = ["sim/src/promises/p01_no_loss.rs", "sim/src/promises/p33_luck.rs"];
    let paths = paths.map(str::to_owned);
    let found = whats(watchers(&paths, &made()));
    assert!(found.len() == 1 && found[0].contains("33"), "{found:?}");
}

#[test]
fn a_promise_that_nobody_watches_is_complained_about_unless_the_page_says_so() {
    let text = |marks: [&str; 2]| {
        let [first, second] = marks;
        format!("# Promises\n\n## P1 No loss\n\n{first}\n\n## P14 Sick clock\n\n{second}\n")
    };
    let [watched, later] = ["- Watched: `sim/...`.", "- Enforced: later. Watched: later."];
    let both = ["sim/src/promises/p01_no_loss.rs", "sim/src/promises/p14_sick_clock.rs"];
    let both = both.map(str::to_owned);
    let about = |marks, paths: &[String]| unwatched(&page("docs/promises.md", &text(marks)), paths);
    assert_eq!(about([watched, watched], &both), []);
    assert_eq!(about([watched, later], &both[..1]), []);
    let missing = about([watched, watched], &both[..1]);
    assert_eq!(missing.len(), 1);
    assert_eq!(
        missing[0].to_string(),
        "docs/promises.md:7: P14 is not watched, nor `Watched: later.`"
    );
    assert!(about([later, watched], &both[1..]).is_empty(), "the mark of one is not another's");
    let built = about([later, watched], &both);
    assert!(built.len() == 1 && built[0].to_string().contains(":3: P1 is watched"), "{built:?}");
    assert_eq!(about([watched, watched], &[]).len(), 2);
}

#[test]
fn a_page_with_no_title_or_two_is_complained_about() {
    assert!(title(&page("docs/x.md", "# One\n\n```\n# a comment\n```\n")).is_none());
    for text in ["", "One\n", "# One\n\n# Two\n", "\n# One\n"] {
        assert!(title(&page("docs/x.md", text)).is_some(), "{text:?}");
    }
}

#[test]
fn a_page_that_nobody_finds_is_complained_about() {
    let index = page("docs/README.md", "# Index\n\n[a](a.md), [b](decisions/b.md#why)\n");
    let of = |path| page(path, "# Title\n");
    let found = unlinked(&index, &[of("docs/a.md"), of("docs/decisions/b.md"), of("docs/c.md")]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "docs/c.md");
}

#[test]
fn a_reference_to_nothing_is_complained_about() {
    let exists = |path: &str| path == "docs/a.md" || path == "node/src/cert.rs";
    let good = "# T\n[a](a.md) `node/src/cert.rs` [site](https://example.org/x.md) [top](#t)\n";
    assert!(dead_references(&page("docs/x.md", good), exists).is_empty());
    let bad = "# T\n[b](b.md)\n`node/src/gone.rs`\n";
    let found = whats(dead_references(&page("docs/x.md", bad), exists));
    assert_eq!(found, ["there is no docs/b.md", "there is no node/src/gone.rs"]);
    let up = page("docs/decisions/x.md", "# T\n[a](../a.md)\n");
    assert!(dead_references(&up, exists).is_empty());
}

#[test]
fn a_function_that_its_file_has_not_is_complained_about() {
    let read = |path: &str| (path == "a/b.rs").then(|| "fn it_holds() {}".to_owned());
    let good = "| `a/b.rs` it_holds (F1); `c/d.rs` whatever_it_is; `no_file` not_there |";
    assert!(dead_names(&page("docs/x.md", good), read).is_empty());
    let bad = "| `a/b.rs` it_holds, it_stands |";
    assert_eq!(whats(dead_names(&page("docs/x.md", bad), read)), ["a/b.rs has no it_stands"]);
}

#[test]
fn a_crate_built_from_what_it_must_not_is_complained_about() {
    let law = LAWS.iter().find(|law| law.of == "gaggle-core").unwrap();
    let built_from = ["gaggle-core", "bytes", "tokio"].map(str::to_owned).into();
    assert_eq!(whats(unlawful(law, &built_from)), ["must not be built from tokio"]);
    assert!(unlawful(law, &BTreeSet::from(["bytes".to_owned()])).is_empty());
}
