//! Streams of deliveries, as their clients know them: what came, and up to where it was taken.
//!
//! What was not taken when a stream is stopped, or its connection lost, goes back at once. A
//! delivery that crosses the end of its stream was given back before it came.
//!
//! What this file does not do: a receive that is not a stream hands over for good.

use std::collections::BTreeMap;

use gaggle_wire::Receipt;

/// Who asked where: a client and a node, by their places, and on which connection. The end of an
/// older one may come late, and ends nothing on the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The client.
    pub actor: usize,
    /// The node.
    pub node: usize,
    /// Which of their connections.
    pub line: u64,
}

/// All streams that were begun, by place and number of the request.
#[derive(Debug, Default)]
pub(super) struct Streams(BTreeMap<(Place, u64), Stream>);

#[derive(Debug, Default)]
struct Stream {
    came: Vec<Receipt>,
    /// Up to where they were taken, and when that was said.
    taken: Vec<(u64, u64)>,
    /// Up to where they were taken when it was stopped.
    stopped: Option<u64>,
}

impl Streams {
    pub(super) fn begin(&mut self, place: Place, number: u64) {
        self.0.insert((place, number), Stream::default());
    }

    /// The client has taken the deliveries up to this one, counted from 1.
    pub(super) fn taken(&mut self, now: u64, place: Place, number: u64, taken: u64) {
        if let Some(stream) = self.0.get_mut(&(place, number)) {
            stream.taken.push((now, taken));
        }
    }

    /// The client stops a stream: what goes back.
    pub(super) fn stop(&mut self, place: Place, number: u64, taken: u64) -> Vec<Receipt> {
        let Some(stream) = self.0.get_mut(&(place, number)) else { return Vec::new() };
        stream.stopped = Some(taken);
        stream.beyond(taken)
    }

    /// The client has no connection there any more, and nothing came through since then: what may
    /// have gone back. Whether the node heard what was said last is not known.
    pub(super) fn lost(&mut self, then: u64, place: Place) -> Vec<Receipt> {
        let mut back = Vec::new();
        self.0.retain(|(of, _), stream| {
            if *of == place {
                let heard = stream.taken.iter().filter(|(at, _)| at + ON_ITS_WAY <= then);
                let taken = heard.map(|(_, taken)| *taken).max().unwrap_or(0);
                back.extend(stream.beyond(taken));
            }
            *of != place
        });
        back
    }

    /// A delivery came; whether it crossed the end of its stream.
    pub(super) fn came(&mut self, place: Place, number: u64, receipt: &Receipt) -> bool {
        let Some(stream) = self.0.get_mut(&(place, number)) else { return false };
        stream.came.push(receipt.clone());
        stream.stopped.is_some_and(|taken| stream.came.len() as u64 > taken)
    }
}

impl Stream {
    fn beyond(&self, taken: u64) -> Vec<Receipt> {
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        self.came.iter().skip(taken).cloned().collect()
    }
}

/// How long what a client says may be on its way.
const ON_ITS_WAY: u64 = 100_000_000;
