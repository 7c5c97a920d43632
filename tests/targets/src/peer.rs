//! What nodes say to each other.

use gaggle_core::envelope::{Envelope, PeerHello};

use crate::framed::journey;
use crate::hex;

const GOLDEN: &str = include_str!("../../../node/core/src/envelope/golden.txt");

pub(crate) fn hello(data: &[u8]) {
    journey::<PeerHello>(data, &[]);
}

pub(crate) fn envelope(data: &[u8]) {
    if let Some(envelope) = journey::<Envelope>(data, &[]) {
        // What a runtime asks of every envelope.
        let _ = envelope.lane();
        let _ = envelope.messages();
    }
}

pub(crate) fn hellos() -> Vec<Vec<u8>> {
    hex::golden(GOLDEN, "PeerHello")
}

pub(crate) fn envelopes() -> Vec<Vec<u8>> {
    let lines = GOLDEN.lines().filter(|line| !line.starts_with("PeerHello"));
    lines.filter_map(|line| line.rsplit(' ').next()).map(hex::bytes).collect()
}
