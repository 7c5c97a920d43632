//! Any bytes in a good frame, so that what is behind the checksum is reached, and what must hold
//! of everything that is decoded there.

use std::fmt::Debug;

use gaggle_wire::frame::{self, FRAME_LENGTH_MAX, Frame, Splitter};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A frame with this header and these contents, as it comes off a stream.
///
/// # Panics
/// When the splitter does not give back what was put in.
#[must_use]
pub fn framed(header: &[u8], contents: &[u8]) -> Frame {
    let length = u32::try_from(8 + header.len() + contents.len()).expect("inputs are small");
    let header_length = u32::try_from(header.len()).expect("inputs are small");
    let checked = [&header_length.to_be_bytes(), header, contents].concat();
    let crc = crc32c::crc32c(&checked);
    let bytes = [&length.to_be_bytes()[..], &crc.to_be_bytes(), &checked].concat();
    let mut splitter = Splitter::new(FRAME_LENGTH_MAX);
    splitter.push(&bytes);
    let frame = splitter.next_frame().expect("a good frame").expect("a whole frame");
    assert_eq!(frame.header_length(), header.len());
    assert_eq!(frame.has_contents(), !contents.is_empty());
    frame
}

/// Decodes a header and checks that it is the same value after another journey.
///
/// Several spellings of one value are taken (a number may be padded, ranges may touch), and only
/// the shortest is ever sent: what was sent once comes back byte for byte.
///
/// # Panics
/// When a value does not survive.
pub fn journey<T>(header: &[u8], contents: &[u8]) -> Option<T>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let value: T = framed(header, contents).header().ok()?;
    let sent = frame::encode(&value, []);
    let mut splitter = Splitter::new(FRAME_LENGTH_MAX);
    splitter.push(&sent);
    let frame = splitter.next_frame().expect("a good frame").expect("a whole frame");
    let again: T = frame.header().expect("what was encoded can be decoded");
    assert_eq!(again, value, "a value changed on its journey");
    assert!(frame.header_length() <= header.len(), "the shortest spelling is sent");
    assert_eq!(frame::encode(&again, []), sent, "one value has one spelling");
    Some(value)
}
