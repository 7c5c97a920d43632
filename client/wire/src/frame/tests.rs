//! Frames, whole and broken, and the golden bytes of every client frame.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{Attempt, Message, ProcessId, QueueId, Request, RequestFrame, Stamp};

const STAMP: Stamp = Stamp { time: 5, count: 1, process: ProcessId(7) };

fn send_frame() -> (RequestFrame, Vec<Bytes>) {
    let (label, content) = Message::new("hello").pack(1, STAMP, 0).unwrap();
    let (other, empty) = Message::new("").pack(2, STAMP, 9).unwrap();
    let body = Request::Send {
        queue: QueueId(STAMP),
        partition: 3,
        attempt: Attempt::First,
        within_ms: 100,
        labels: vec![label, other],
    };
    (RequestFrame { request: 1, body }, vec![content, empty])
}

#[test]
fn a_frame_arrives_whole_however_it_is_cut() {
    let (header, contents) = send_frame();
    let bytes = encode(&header, &contents);
    for chunk in 1..bytes.len() {
        let mut splitter = Splitter::new(1024);
        let mut frames = Vec::new();
        for part in bytes.chunks(chunk) {
            splitter.push(part);
            frames.extend(splitter.next_frame().unwrap());
        }
        assert_eq!(frames.len(), 1);
        let decoded: RequestFrame = frames[0].header().unwrap();
        assert_eq!(decoded, header);
        let Request::Send { labels, .. } = &decoded.body else { panic!() };
        assert_eq!(frames[0].contents(labels).unwrap(), contents);
        assert!(!splitter.is_mid_frame());
    }
}

#[test]
fn a_length_above_the_limit_is_refused_before_it_is_allocated() {
    let mut splitter = Splitter::new(4096);
    splitter.push(&u32::MAX.to_be_bytes());
    assert_eq!(
        splitter.next_frame(),
        Err(FrameError::TooLong { length: u32::MAX as usize, limit: 4096 })
    );
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let mut splitter = Splitter::new(4096);
    splitter.push(&3_u32.to_be_bytes());
    assert_eq!(splitter.next_frame(), Err(FrameError::BadLength));

    let mut bytes = encode(&1_u8, []).to_vec();
    bytes[8..12].copy_from_slice(&9_u32.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_be_bytes());
    let mut splitter = Splitter::new(4096);
    splitter.push(&bytes);
    assert_eq!(splitter.next_frame(), Err(FrameError::BadLength));
}

#[test]
fn a_flipped_bit_is_refused_wherever_it_is() {
    let (header, contents) = send_frame();
    let bytes = encode(&header, &contents);
    for at in 4 * 8..bytes.len() * 8 {
        let mut changed = bytes.to_vec();
        changed[at / 8] ^= 1 << (at % 8);
        let mut splitter = Splitter::new(4096);
        splitter.push(&changed);
        assert!(splitter.next_frame().is_err(), "bit {at}");
    }
}

#[test]
fn trailing_bytes_and_wrong_contents_are_refused() {
    let mut splitter = Splitter::new(4096);
    splitter.push(&encode(&(1_u8, 2_u8), []));
    let frame = splitter.next_frame().unwrap().unwrap();
    assert_eq!(frame.header::<u8>(), Err(FrameError::BadHeader));

    let (header, contents) = send_frame();
    splitter.push(&encode(&header, &contents[1..]));
    let frame = splitter.next_frame().unwrap().unwrap();
    let RequestFrame { body: Request::Send { labels, .. }, .. } = frame.header().unwrap() else {
        panic!()
    };
    assert_eq!(frame.contents(&labels), Err(FrameError::BadContents));
    assert_eq!(frame.contents(&labels[1..]), Ok(vec![Bytes::new()]));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut splitter = Splitter::new(1024);
        splitter.push(&bytes);
        while let Ok(Some(frame)) = splitter.next_frame() {
            let _ = frame.header::<RequestFrame>();
        }
    }

    #[test]
    fn random_headers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let frame = Frame { header: Bytes::from(bytes), contents: Bytes::new() };
        let _ = frame.header::<RequestFrame>();
        let _ = frame.header::<crate::ResponseFrame>();
    }
}
