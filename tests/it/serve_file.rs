//! The file of a node, as somebody may have left it: options out of order, cut, mistyped, damaged.

use std::time::Duration;

use gaggle_node::config::{ServeConfig, ServeOptions, Size};
use gaggle_targets::mutation::Mutations;

const FILE: &str = r#"
data = "/var/lib/gaggle"
listen = "0.0.0.0:7400"
advertise = "10.0.0.1:7400"
seeds = ["n1:7400", "[::1]:7400"]
zone = "a"
standalone = true
node_ca = "a"
client_ca = "b"
certificate = "c"
key = "d"
store_cache = "128MiB"
two_phase_commit = true
body_cache = "1GiB"
sends_max = "1MiB"
clients_max = 5
suspicion = "10s"
serve_alone_after = "0s"
drift_max = "500ms"
"#;

const MIB: usize = 1024 * 1024;

#[test]
fn a_file_is_refused_or_gives_options_within_their_limits() {
    let lines = FILE.lines().map(|line| line.as_bytes().to_vec());
    let inputs: Vec<Vec<u8>> = lines.chain([FILE.as_bytes().to_vec()]).collect();
    let (mut taken, mut refused) = (0, 0);
    for input in Mutations::of(inputs, 7).take(10_000) {
        // What was changed stands before or behind a good file, or alone.
        let odd = String::from_utf8_lossy(&input);
        for text in [odd.to_string(), format!("{odd}{FILE}"), format!("{FILE}{odd}")] {
            match text.parse::<ServeOptions>() {
                Ok(options) => taken += usize::from(load(options)),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
}

/// Whether these options can be run; then they are within their limits.
fn load(options: ServeOptions) -> bool {
    let Ok(config) = ServeConfig::load(None, options) else { return false };
    let limits = config.limits;
    let sizes = [limits.store_cache, limits.body_cache, limits.sends_max];
    assert!(sizes.iter().all(|size| *size >= MIB), "{config:?}");
    assert!(config.zone.len() <= 64 && config.seeds.len() <= 64, "{config:?}");
    let times = [config.times.suspicion, config.times.drift_max];
    assert!(times.iter().all(|time| *time != Some(Duration::ZERO)), "{config:?}");
    true
}

#[test]
fn a_size_is_refused_or_written_as_one_that_reads_the_same() {
    let inputs = ["1B", "1KiB", "64 MiB", "17179869183GiB", "0"];
    let inputs = inputs.iter().map(|text| text.as_bytes().to_vec()).collect();
    for input in Mutations::of(inputs, 7).take(10_000) {
        if let Ok(size) = String::from_utf8_lossy(&input).parse::<Size>() {
            assert_eq!(size.to_string().parse(), Ok(size));
        }
    }
}
