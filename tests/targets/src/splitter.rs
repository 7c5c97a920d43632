//! The splitter: any stream, cut anywhere.

use arbitrary::Unstructured;
use bytes::Bytes;
use gaggle_wire::frame::{self, Frame, FrameError, Splitter};

/// Small, so that streams of a few hundred bytes meet it.
const LIMIT: usize = 300;

pub(crate) fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(cuts) = u.arbitrary::<[u8; 4]>() else { return };
    let stream = u.take_rest();
    as_it_came(stream, cuts);
    as_it_was_sent(stream, cuts);
}

/// A stream of anything gives the same frames and the same error however it is cut.
fn as_it_came(stream: &[u8], cuts: [u8; 4]) {
    let (whole, mut first) = (split(stream, [0; 4]), split(stream, cuts));
    let complaint = first.1.take();
    assert_eq!(first.0, whole.0, "frames depend on where the stream was cut");
    assert_eq!(complaint, whole.1, "errors depend on where the stream was cut");
}

/// What was encoded comes out, in order, and nothing else.
fn as_it_was_sent(stream: &[u8], cuts: [u8; 4]) {
    let headers: Vec<&[u8]> = stream.chunks(61).collect();
    let sent = headers.iter().map(|header| {
        let contents = Bytes::copy_from_slice(&header[header.len() / 2..]);
        frame::encode(header, [&contents]).to_vec()
    });
    let (frames, complaint) = split(&sent.collect::<Vec<_>>().concat(), cuts);
    assert_eq!((frames.len(), complaint), (headers.len(), None));
    for (frame, header) in frames.iter().zip(headers) {
        assert_eq!(frame.header::<Vec<u8>>().as_deref(), Ok(header));
        assert!(frame.has_contents());
    }
}

fn split(stream: &[u8], cuts: [u8; 4]) -> (Vec<Frame>, Option<FrameError>) {
    let mut splitter = Splitter::new(LIMIT);
    let (mut frames, mut rest) = (Vec::new(), stream);
    for cut in cuts.iter().cycle() {
        let length = if *cut == 0 { rest.len() } else { usize::from(*cut).min(rest.len()) };
        splitter.push(&rest[..length]);
        rest = &rest[length..];
        loop {
            match splitter.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(splitter.buffered() < 4 + LIMIT, "more waits than one frame");
        if rest.is_empty() {
            break;
        }
    }
    (frames, None)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let body = Bytes::from_static(b"contents");
    let frame = frame::encode(&(1_u8, "a header"), [&body]);
    let cut = |cuts: [u8; 4]| [&cuts[..], &frame, &frame].concat();
    vec![cut([0, 0, 0, 0]), cut([1, 1, 1, 1]), cut([3, 17, 0, 5])]
}
