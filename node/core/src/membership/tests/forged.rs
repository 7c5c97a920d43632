//! Packets that no healthy node would send now.

use foca::{Codec as _, Header, Message, PostcardCodec};

use super::super::Generation;
use super::super::identity::Identity;
use super::flock::{Flock, node, peer};

pub(super) fn identity(who: usize, generation: u64) -> Identity {
    let generation = Generation::from_raw(generation);
    Identity { node: node(who), generation, address: peer(who) }
}

pub(super) fn own(flock: &Flock, who: usize) -> Identity {
    flock.geese[who].membership.as_ref().unwrap().me()
}

/// A packet without content.
pub(super) fn bare(src: Identity, dst: Identity, message: Message<Identity>) -> Vec<u8> {
    let header = Header { src, src_incarnation: 0, dst, message };
    let mut bytes = Vec::new();
    PostcardCodec.encode_header(&header, &mut bytes).unwrap();
    bytes
}

pub(super) fn packet(src: Identity, dst: Identity, updates: &[foca::Member<Identity>]) -> Vec<u8> {
    let mut bytes = bare(src, dst, Message::Gossip);
    bytes.extend((updates.len() as u16).to_be_bytes());
    for update in updates {
        PostcardCodec.encode_member(update, &mut bytes).unwrap();
    }
    bytes
}
