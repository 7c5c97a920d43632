//! A gossip packet is read whole, and judged, before foca sees one byte of it.
//!
//! foca trusts what a header says and has no notion of a plausible name; a peer that is certified
//! may still be sick. So every packet is parsed here first: whose it says it is, every identity and
//! profile in it, nothing left over. What comes through is safe to hand on.
//!
//! Layout (foca's): header, then for messages that carry updates a u16 count and so many members,
//! then profile notices, each behind its u16 length. Members and header are postcard.
//!
//! One packet is written here and not by foca, the correction: a broadcast without content, which
//! foca never sends and takes for a sign of life.
//!
//! This file does not know the view: limits that depend on it are the room's.

use std::net::SocketAddr;

use bytes::{Buf, BufMut, Bytes};
use foca::{Codec, Header, Message, PostcardCodec};
use gaggle_wire::NodeId;
use thiserror::Error;

use super::identity::{ANYONE, Generation, Identity};
use super::profile::Notice;

/// Why a packet was not taken. The peer made it; nothing of it was kept, and to send the same again
/// is useless. The caller counts these by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PacketRefused {
    /// Larger than members have agreed upon.
    #[error("a gossip packet of {0} bytes is too big")]
    TooBig(usize),
    /// Not a gossip packet: cut, garbage, or something left over.
    #[error("a gossip packet that cannot be read")]
    Undecodable,
    /// It speaks for another node than the one whose certificate the connection showed.
    #[error("a gossip packet of node {claimed} came from node {actual}")]
    ForeignSource {
        /// Who it says it is from.
        claimed: NodeId,
        /// Who it is from.
        actual: NodeId,
    },
    /// It comes from this very name: a second process runs under it, or it is an own one.
    #[error("a gossip packet came under this node's own name from {0}")]
    OwnName(SocketAddr),
    /// It is meant for another node: an address changed hands.
    #[error("a gossip packet is meant for node {0}")]
    Misdirected(NodeId),
    /// It names a node that cannot be: a reserved name or an address nobody can dial.
    #[error("a gossip packet names node {node} at {address}, which cannot be")]
    BadIdentity {
        /// The name.
        node: NodeId,
        /// The address.
        address: SocketAddr,
    },
    /// It claims a generation that the node could never beat, or that is out of all proportion.
    #[error("a gossip packet claims an impossible generation of node {0}")]
    BadGeneration(NodeId),
    /// It names more nodes than the view may hold.
    #[error("a gossip packet names more nodes than the view may hold")]
    TooManyMembers,
}

/// A packet that may be handed to foca.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) header: Header<Identity>,
    pub(super) updates: Vec<foca::Member<Identity>>,
    pub(super) notices: Vec<Notice>,
}

impl Packet {
    /// Reads a packet that the node `from` sent to `me`.
    pub(super) fn parse(data: &[u8], from: NodeId, me: NodeId) -> Result<Self, PacketRefused> {
        let mut rest = data;
        let mut codec = GossipCodec { me };
        let header = codec.decode_header(&mut rest).map_err(|_| PacketRefused::Undecodable)?;
        if header.src.node != from {
            let (claimed, actual) = (header.src.node, from);
            return Err(PacketRefused::ForeignSource { claimed, actual });
        }
        if from == me {
            return Err(PacketRefused::OwnName(header.src.address));
        }
        if header.dst.node != me {
            return Err(PacketRefused::Misdirected(header.dst.node));
        }
        check(&header.src)?;
        if let Some(third) = third_party(&header.message) {
            check(third)?;
        }
        let updates = read_updates(&header.message, &mut rest, &mut codec)?;
        let notices = read_notices(rest)?;
        Ok(Self { header, updates, notices })
    }
}

/// foca's postcard codec, except that an announcement to whoever listens here is for this node.
#[derive(Debug)]
pub(super) struct GossipCodec {
    pub(super) me: NodeId,
}

impl Codec<Identity> for GossipCodec {
    type Error = postcard::Error;

    fn encode_header(
        &mut self,
        header: &Header<Identity>,
        buf: impl BufMut,
    ) -> Result<(), postcard::Error> {
        PostcardCodec.encode_header(header, buf)
    }

    fn decode_header(&mut self, buf: impl Buf) -> Result<Header<Identity>, postcard::Error> {
        let mut header: Header<Identity> = PostcardCodec.decode_header(buf)?;
        if header.message == Message::Announce && header.dst.node == ANYONE {
            header.dst.node = self.me;
        }
        Ok(header)
    }

    fn encode_member(
        &mut self,
        member: &foca::Member<Identity>,
        buf: impl BufMut,
    ) -> Result<(), postcard::Error> {
        PostcardCodec.encode_member(member, buf)
    }

    fn decode_member(&mut self, buf: impl Buf) -> Result<foca::Member<Identity>, postcard::Error> {
        PostcardCodec.decode_member(buf)
    }
}

/// What `me` says to a node that it knows as `newer` than the node says it is. What it says of its
/// own incarnation is old and changes nothing.
pub(super) fn correction(me: Identity, newer: Identity) -> Bytes {
    let header = Header { src: me, src_incarnation: 0, dst: newer, message: Message::Broadcast };
    let mut data = Vec::new();
    PostcardCodec
        .encode_header(&header, &mut data)
        .expect("a header has no part that cannot be written");
    data.into()
}

fn read_updates(
    message: &Message<Identity>,
    rest: &mut &[u8],
    codec: &mut GossipCodec,
) -> Result<Vec<foca::Member<Identity>>, PacketRefused> {
    let none_expected = matches!(message, Message::Announce | Message::TurnUndead);
    if none_expected && !rest.is_empty() {
        return Err(PacketRefused::Undecodable);
    }
    if rest.is_empty() || *message == Message::Broadcast {
        return Ok(Vec::new());
    }
    let count = rest.try_get_u16().map_err(|_| PacketRefused::Undecodable)?;
    // Grown one by one: the count is a stranger's word, the bytes are there or not.
    let mut updates = Vec::new();
    for _ in 0..count {
        let update = codec.decode_member(&mut *rest).map_err(|_| PacketRefused::Undecodable)?;
        check(update.id())?;
        updates.push(update);
    }
    Ok(updates)
}

fn read_notices(mut rest: &[u8]) -> Result<Vec<Notice>, PacketRefused> {
    let mut notices = Vec::new();
    while !rest.is_empty() {
        let length = rest.try_get_u16().map_err(|_| PacketRefused::Undecodable)?;
        let Some((bytes, after)) = rest.split_at_checked(usize::from(length)) else {
            return Err(PacketRefused::Undecodable);
        };
        let notice = Notice::decode(bytes).map_err(|_| PacketRefused::Undecodable)?;
        if notice.node == ANYONE || notice.edition.generation > Generation::MAX {
            return Err(PacketRefused::BadGeneration(notice.node));
        }
        notices.push(notice);
        rest = after;
    }
    Ok(notices)
}

fn check(identity: &Identity) -> Result<(), PacketRefused> {
    if !identity.is_plausible() {
        let (node, address) = (identity.node, identity.address);
        return Err(PacketRefused::BadIdentity { node, address });
    }
    if identity.generation > Generation::MAX {
        return Err(PacketRefused::BadGeneration(identity.node));
    }
    Ok(())
}

const fn third_party(message: &Message<Identity>) -> Option<&Identity> {
    match message {
        Message::PingReq { target: third, .. }
        | Message::IndirectPing { origin: third, .. }
        | Message::IndirectAck { target: third, .. }
        | Message::ForwardedAck { origin: third, .. } => Some(third),
        Message::Ping(_)
        | Message::Ack(_)
        | Message::Announce
        | Message::Feed
        | Message::Gossip
        | Message::Broadcast
        | Message::TurnUndead => None,
    }
}
