//! Mutations of inputs, and noise: without end, and the same ones for the same seed.
//!
//! What this file does not do: it does not learn from what an input reaches; the fuzzer does.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// An endless sequence of mutated inputs.
#[derive(Debug)]
pub struct Mutations {
    inputs: Vec<Vec<u8>>,
    rng: Pcg64Mcg,
}

impl Mutations {
    /// Mutations of these; noise alone when there are none.
    #[must_use]
    pub fn of(inputs: Vec<Vec<u8>>, seed: u64) -> Self {
        Self { inputs, rng: Pcg64Mcg::seed_from_u64(seed) }
    }

    fn noise(&mut self) -> Vec<u8> {
        let length = self.rng.random_range(0..LENGTH_MAX);
        (0..length).map(|_| self.rng.random()).collect()
    }

    fn any(&mut self) -> Vec<u8> {
        let at = self.rng.random_range(0..self.inputs.len());
        self.inputs[at].clone()
    }

    fn edit(&mut self, bytes: &mut Vec<u8>) {
        let at = self.rng.random_range(0..=bytes.len());
        match self.rng.random_range(0..7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.rng.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = self.rng.random(),
            2 if at < bytes.len() => bytes[at] = ODD[self.rng.random_range(0..ODD.len())],
            3 => bytes.truncate(at),
            4 => bytes.insert(at, self.rng.random()),
            5 => {
                let other = self.any();
                let from = self.rng.random_range(0..=other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
            _ => {
                let more = self.rng.random_range(0..40);
                bytes.extend((0..more).map(|_| self.rng.random::<u8>()));
            }
        }
        bytes.truncate(LENGTH_MAX);
    }
}

impl Iterator for Mutations {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.inputs.is_empty() || self.rng.random_range(0..4) == 0 {
            return Some(self.noise());
        }
        let mut bytes = self.any();
        for _ in 0..self.rng.random_range(1..6) {
            self.edit(&mut bytes);
        }
        Some(bytes)
    }
}

/// Where numbers and lengths change their meaning.
const ODD: [u8; 5] = [0, 1, 0x7f, 0x80, 0xff];
/// Some hundred steps of a walk.
const LENGTH_MAX: usize = 1024;
