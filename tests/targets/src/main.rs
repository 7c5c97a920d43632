//! Writes the golden bytes into the corpus of each target, so that the fuzzer starts from them.
//!
//! To be run when the language has gained something. What stands in a corpus beside `golden-*`
//! was found by a fuzzer, and stays.

use std::fs;
use std::io;

use gaggle_targets::{TARGETS, corpus};

fn main() -> io::Result<()> {
    for target in TARGETS {
        let dir = corpus(target.name);
        fs::create_dir_all(&dir)?;
        for (number, bytes) in (target.seeds)().into_iter().enumerate() {
            fs::write(dir.join(format!("golden-{number:02}")), bytes)?;
        }
    }
    Ok(())
}
