//! What clients and nodes say at the door: requests, answers, and the contents of messages.

use bytes::Bytes;
use gaggle_wire::{Label, Message, ProcessId, RequestFrame, ResponseFrame, Stamp};

use crate::framed::{framed, journey};
use crate::hex;

const GOLDEN: &str = include_str!("../../../client/wire/src/golden.txt");

pub(crate) fn request(data: &[u8]) {
    journey::<RequestFrame>(data, &[]);
}

pub(crate) fn response(data: &[u8]) {
    journey::<ResponseFrame>(data, &[]);
}

/// The first byte says how the rest is parted into contents; they come back as they were cut, and
/// what is unpacked is packed to the same bytes.
pub(crate) fn content(data: &[u8]) {
    let Some((head_length, rest)) = data.split_first() else { return };
    let head_length = usize::from(*head_length);
    let stamp = Stamp { time: 1, count: 0, process: ProcessId(1) };
    let label = |head_length: usize, content: &[u8]| Label {
        number: 1,
        stamp,
        head_length: u16::try_from(head_length).expect("it was a byte"),
        body_length: u32::try_from(content.len().saturating_sub(head_length)).expect("short"),
        crc: crc32c::crc32c(content),
        delay_ms: 0,
        key: 0,
    };
    let (first, second) = rest.split_at(rest.len() / 2);
    let labels = [label(head_length, first), label(0, second)];
    let whole = labels[0].content_length() == first.len();
    match framed(&[], rest).contents(&labels) {
        Ok(contents) => assert_eq!(contents, [first, second]),
        Err(_) => assert!(!whole, "contents of the right length are cut"),
    }
    let content = Bytes::copy_from_slice(first);
    if let Ok(message) = Message::unpack(&labels[0], &content)
        && let Ok((label, packed)) = message.pack(1, stamp, 0)
    {
        assert_eq!(Message::unpack(&label, &packed), Ok(message), "a message changed");
    }
}

pub(crate) fn requests() -> Vec<Vec<u8>> {
    hex::golden(GOLDEN, "request").into_iter().map(|body| [vec![1], body].concat()).collect()
}

pub(crate) fn responses() -> Vec<Vec<u8>> {
    let numbered = |body: Vec<u8>| [vec![1, 1], body].concat();
    let answers = hex::golden(GOLDEN, "response").into_iter().map(numbered);
    let refused = |refusal: Vec<u8>| [vec![1, 1, 1], refusal].concat();
    answers.chain(hex::golden(GOLDEN, "refusal").into_iter().map(refused)).collect()
}

pub(crate) fn contents() -> Vec<Vec<u8>> {
    let stamp = Stamp { time: 1, count: 0, process: ProcessId(1) };
    let mut message = Message::new("a body");
    message.key = Some(Bytes::from_static(b"key"));
    message.attributes.insert("name", "value").expect("it is a good attribute");
    let (label, content) = message.pack(1, stamp, 0).expect("it is a good message");
    let head_length = u8::try_from(label.head_length).expect("it is short");
    vec![[&[head_length][..], &content, &content].concat(), vec![0, 1, 2]]
}
