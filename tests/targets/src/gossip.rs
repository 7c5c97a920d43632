//! Packets of gossip: any bytes from a certified member, first alone and then in company.

use bytes::Bytes;
use gaggle_core::event::Event;
use gaggle_wire::NodeId;

use crate::state::House;

/// The first byte says who sends; packets follow, each behind its length.
pub(crate) fn run(data: &[u8]) {
    let Some((from, mut rest)) = data.split_first() else { return };
    let from = NodeId(u64::from(*from));
    let mut house = House::new(1);
    while let Some((length, behind)) = rest.split_first() {
        let (packet, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        house.handle(Event::Gossip { from, packet: Bytes::copy_from_slice(packet) });
        house.pass(500);
        rest = behind;
    }
    house.reopen();
}

/// What a second node says to the first while they meet.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let said = crate::state::meeting();
    let short = said.iter().filter(|packet| packet.len() < 256);
    let packets: Vec<Vec<u8>> = short
        .map(|packet| [&[u8::try_from(packet.len()).expect("it is short")], &packet[..]].concat())
        .collect();
    let alone = packets.iter().map(|packet| [&[2][..], packet].concat());
    alone.chain([[&[2][..], &packets.concat()].concat()]).collect()
}
