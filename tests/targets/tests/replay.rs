//! Every target on its corpus, its golden bytes, and some thousand mutations of both.
//!
//! The mutations come from a fixed seed, so a run that fails fails again; it prints the input in
//! hex, which belongs into the corpus of the target once the fault is mended. Longer searches are
//! the fuzzer's (`tests/fuzz`).

use std::fs;

use gaggle_targets::mutation::Mutations;
use gaggle_targets::{Target, corpus, target};

/// Prints the input of a run that panics.
struct Shown<'a>(&'static str, &'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.1.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("the input of {} that failed: {hex}", self.0);
        }
    }
}

fn run(target: &Target, input: &[u8]) {
    let _shown = Shown(target.name, input);
    (target.run)(input);
}

/// The committed inputs and the golden ones.
fn inputs(target: &Target) -> Vec<Vec<u8>> {
    let dir = corpus(target.name);
    let mut paths: Vec<_> = match fs::read_dir(&dir) {
        Ok(entries) => entries.map(|entry| entry.expect("it can be read").path()).collect(),
        Err(error) => panic!("{}: {error}", dir.display()),
    };
    paths.sort();
    assert!(!paths.is_empty(), "{} has a corpus", target.name);
    let committed = paths.iter().map(|path| fs::read(path).expect("it can be read"));
    committed.chain((target.seeds)()).collect()
}

fn replay(name: &str, mutations: usize) {
    let target = target(name);
    let inputs = inputs(target);
    for input in &inputs {
        run(target, input);
    }
    for input in Mutations::of(inputs, SEED).take(mutations) {
        run(target, &input);
    }
}

macro_rules! replayed {
    ($($test:ident $name:literal $mutations:literal;)*) => {$(
        #[test]
        fn $test() {
            replay($name, $mutations);
        }
    )*};
}

replayed! {
    a_stream_gives_the_same_frames_however_it_is_cut "splitter" 5000;
    what_a_client_asks_is_refused_or_survives_a_journey "request" 5000;
    what_a_node_answers_is_refused_or_survives_a_journey "response" 5000;
    a_receipt_is_refused_or_written_as_it_was_read "receipt" 5000;
    contents_are_cut_and_unpacked_as_they_were_packed "content" 5000;
    what_a_node_says_first_is_refused_or_survives_a_journey "hello" 5000;
    what_nodes_say_is_refused_or_survives_a_journey "envelope" 10000;
    gossip_of_any_bytes_panics_no_node "gossip" 1000;
    a_key_has_one_spelling "key" 5000;
    a_record_is_refused_or_written_as_it_was_read "record" 5000;
    a_node_opens_on_its_rows_or_names_the_bad_one "opening" 1000;
    a_node_stands_whatever_its_peers_and_clients_say "node" 1000;
    a_few_nodes_stand_whatever_happens_between_them "cluster" 500;
}

const WALKS: usize = 200;
const SEED: u64 = 0x6a66_1e00;

/// A walk that goes nowhere finds nothing: these say and are told nearly all there is to say.
#[test]
fn the_walks_get_far() {
    let inputs: Vec<Vec<u8>> = Mutations::of(Vec::new(), SEED).take(WALKS).collect();
    let [alone, together] = gaggle_targets::state::kinds(&inputs);
    for kind in ["Sent", "Deliveries", "Deleted", "Extended", "Released", "Peeked", "Held"] {
        assert!(alone.contains(kind), "no {kind} in {alone:?}");
    }
    for kind in ["Grant", "Copy", "MakeUp", "Buried", "Changed", "Yield", "Leases"] {
        assert!(together.contains(kind), "no {kind} in {together:?}");
    }
}
