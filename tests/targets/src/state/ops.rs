//! The two targets of this room: one node among liars, and a few honest ones.

use std::collections::BTreeSet;

use arbitrary::Unstructured;
use bytes::Bytes;
use gaggle_core::effect::Effect;
use gaggle_core::envelope::Envelope;
use gaggle_core::event::Event;
use gaggle_wire::NodeId;

use super::House;
use super::flock::Flock;
use super::walk::Walk;

/// One node, whose peers and clients say anything at all.
pub(crate) fn node(data: &[u8]) {
    walk_alone(data, Walk::new());
}

/// A few nodes, over links that come and go; what they say arrives late, and is never made up.
pub(crate) fn cluster(data: &[u8]) {
    walk_together(data, Walk::new());
}

/// The kinds of words that nodes say on these inputs, alone and together.
#[must_use]
pub fn kinds(inputs: &[Vec<u8>]) -> [BTreeSet<String>; 2] {
    [walk_alone, walk_together].map(|walk_on: fn(&[u8], Walk) -> Walk| {
        let listen = |data: &Vec<u8>| {
            let mut walk = Walk::new();
            walk.kinds = Some(BTreeSet::new());
            walk_on(data, walk).kinds.unwrap_or_default()
        };
        inputs.iter().flat_map(listen).collect()
    })
}

fn walk_alone(data: &[u8], mut walk: Walk) -> Walk {
    let mut u = Unstructured::new(data);
    let mut house = House::new(1);
    walk.queue(&mut house);
    while !u.is_empty() {
        walk.met.time = house.wall();
        match u.int_in_range(0..=15_u8).unwrap_or(0) {
            0..=7 => walk.alone(&mut house, &mut u),
            8 => walk.link_up(&mut house, &mut u),
            9 => {
                let link = walk.link(&mut u);
                walk.links.remove(&link);
                house.handle(Event::LinkDown { link });
            }
            10 => walk.gossip(&mut house, &mut u),
            11 => house.settle(),
            _ => {
                let link = walk.link(&mut u);
                if let Some(envelope) = walk.met.draw::<Envelope>(&mut u) {
                    house.handle(Event::Envelope { link, envelope });
                }
            }
        }
        walk.hear(&mut house);
    }
    house.settle();
    house.reopen();
    house.settle();
    walk
}

fn walk_together(data: &[u8], walk: Walk) -> Walk {
    let mut u = Unstructured::new(data);
    let nodes = if u.arbitrary().unwrap_or(false) { 3 } else { 2 };
    let mut flock = Flock::new(nodes, walk);
    while !u.is_empty() {
        let at = u.int_in_range(0..=nodes - 1).unwrap_or(0);
        flock.walk.met.time = flock.houses[at].wall();
        match u.int_in_range(0..=15_u8).unwrap_or(0) {
            0..=7 => flock.alone(at, &mut u),
            8 => flock.connect(at, (at + 1) % nodes),
            9 => flock.disconnect(&mut u),
            10..=12 => flock.deliver(&mut u),
            13 => flock.carry(CARRY),
            _ => {
                for house in &mut flock.houses {
                    house.begin_commit();
                    house.end_commit();
                    house.answer(None);
                }
            }
        }
        flock.collect();
    }
    for from in 0..nodes {
        flock.connect(from, (from + 1) % nodes);
    }
    flock.carry(CARRY_MAX);
    for house in &mut flock.houses {
        house.reopen();
    }
    flock.walk
}

/// What a second node says to the first by gossip while they meet.
pub(crate) fn meeting() -> Vec<Bytes> {
    let mut houses = [House::new(1), House::new(2)];
    let mut said = Vec::new();
    for _ in 0..10 {
        for at in 0..2 {
            houses[at].pass(200);
            houses[at].settle();
            for word in std::mem::take(&mut houses[at].words) {
                if let Effect::Gossip { packet, .. } = word {
                    if at == 1 {
                        said.push(packet.clone());
                    }
                    let from = NodeId(at as u64 + 1);
                    houses[1 - at].handle(Event::Gossip { from, packet });
                }
            }
        }
    }
    said
}

/// Inputs to begin with: noise, of which every byte means something here.
pub(crate) fn noise() -> Vec<Vec<u8>> {
    (1..=8_u64)
        .map(|seed| {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let next = |_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_be_bytes()[3]
            };
            (0..NOISE).map(next).collect()
        })
        .collect()
}

/// Some hundred steps.
const NOISE: usize = 600;
/// How far talk is carried at once, and at the end.
const CARRY: usize = 60;
const CARRY_MAX: usize = 400;
