//! The text of a receipt: what somebody typed or pasted.

use gaggle_wire::{NodeId, ProcessId, QueueId, Receipt, Stamp};

pub(crate) fn run(data: &[u8]) {
    parse(&String::from_utf8_lossy(data));
    // With the right checksum, so that the fields are reached.
    let checked = [data, &crc32c::crc32c(data).to_be_bytes()].concat();
    parse(&encoded(&checked));
}

fn parse(text: &str) {
    if let Ok(receipt) = text.parse::<Receipt>() {
        assert!(receipt.holders.len() <= Receipt::HOLDERS_MAX);
        let written = receipt.to_string();
        assert_eq!(written.parse(), Ok(receipt), "a receipt changed when it was written down");
        assert!(written.len() <= text.len(), "the shortest spelling is written");
    }
}

/// Base64url without padding, drawn out so that no parser is asked about itself.
fn encoded(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let sixes = bytes.chunks(3).flat_map(|chunk| {
        let bits =
            (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(*chunk.get(at).unwrap_or(&0)));
        (0..=chunk.len()).map(move |at| (bits >> (18 - 6 * at)) & 63)
    });
    sixes.map(|six| char::from(DIGITS[six as usize])).collect()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let stamp = Stamp { time: 300, count: 1, process: ProcessId(7) };
    let receipt = Receipt {
        queue: QueueId(stamp),
        partition: 3,
        number: 1,
        stamp,
        holders: vec![NodeId(1), NodeId(200)],
        custodian: NodeId(1),
        boot: 4,
        delivery: 2,
    };
    let text = receipt.to_string().into_bytes();
    let fields = postcard::to_stdvec(&receipt).expect("it is plain data");
    vec![text, [vec![1], fields].concat()]
}
