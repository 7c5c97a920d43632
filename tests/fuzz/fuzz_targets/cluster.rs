//! See `tests/targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (gaggle_targets::target("cluster").run)(data));
