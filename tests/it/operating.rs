//! The walk through a first cluster, as the page for operators prints it.
//!
//! Files are those of the page's TOML blocks that begin with their name, commands are its shell
//! blocks, run by one shell in order. Only the ports are others: tests run side by side.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::EXECUTABLE;

const PAGE: &str = include_str!("../../docs/operating.md");

/// The blocks of the page in this language.
fn blocks(language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in PAGE.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some(format!("{info}\n")),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    let begin = format!("{language}\n");
    blocks.iter().filter_map(|block| block.strip_prefix(&begin)).map(str::to_owned).collect()
}

/// With ports that are free in place of those of the page.
fn on_free_ports(text: &str, ports: &[u16]) -> String {
    (7401..).zip(ports).fold(text.to_owned(), |text, (printed, port)| {
        text.replace(&format!(":{printed}"), &format!(":{port}"))
    })
}

fn write_files(dir: &Path, ports: &[u16]) {
    for block in blocks("toml") {
        let name = block.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap();
        fs::write(dir.join(name), on_free_ports(&block, ports)).unwrap();
    }
}

#[test]
fn the_walk_through_a_first_cluster_works_as_it_is_printed() {
    let sockets = [0; 3].map(|any| UdpSocket::bind((Ipv4Addr::LOCALHOST, any)).unwrap());
    let ports = sockets.each_ref().map(|socket| socket.local_addr().unwrap().port());
    drop(sockets);
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path(), &ports);
    symlink(EXECUTABLE, dir.path().join("gaggle")).unwrap();
    let walk = blocks("sh").join("");
    assert!(walk.contains("gaggle serve") && walk.contains("gaggle receive"), "{walk}");
    let script = format!("set -eu\ntrap 'kill $(jobs -p); wait' EXIT\n{walk}");
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(dir.path())
        .env("PATH", path)
        .env("HOME", dir.path())
        .env_remove("GAGGLE_CONNECT")
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    assert!(said.lines().any(|line| line == "two coffees"), "{said}");
}
