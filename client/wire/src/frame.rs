//! The frame: how a header and the contents behind it lie on a stream.
//!
//! ```text
//!  0        4        8          12
//!  +--------+--------+----------+-- header --+------ contents ------+
//!  | length | crc32c | header n | n bytes    | run of raw contents  |
//!  +--------+--------+----------+------------+----------------------+
//!   length counts what follows it; crc32c covers what follows the crc; all big-endian
//! ```
//!
//! The header is postcard, the contents are the bytes of messages as their producer packed them,
//! one behind the other, cut by the lengths in the labels. So a body is never encoded again.
//!
//! Invariants: a length is checked against the limit before anything is allocated for it; a
//! header with bytes left over is refused; a frame that a closed stream cut off is never seen.
//! What this file does not do: it does not read from streams and knows no particular header.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::Label;

/// Why bytes on a stream are not a frame. The stream is of no use afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The length is above what may come here.
    #[error("a frame of {length} bytes, where at most {limit} may come")]
    TooLong {
        /// What the prefix says.
        length: usize,
        /// What is allowed here.
        limit: usize,
    },
    /// The length is below that of an empty frame, or the header is longer than the frame.
    #[error("the lengths in the frame contradict each other")]
    BadLength,
    /// The checksum does not match.
    #[error("the frame was damaged")]
    Damaged,
    /// The header cannot be decoded, or bytes are left over.
    #[error("the header cannot be decoded")]
    BadHeader,
    /// The contents are not as long as the labels say.
    #[error("the contents do not have the lengths that their labels say")]
    BadContents,
}

/// A frame as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    header: Bytes,
    contents: Bytes,
}

impl Frame {
    /// Decodes the header.
    ///
    /// # Errors
    /// [`FrameError::BadHeader`].
    pub fn header<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        let (header, rest) =
            postcard::take_from_bytes(&self.header).map_err(|_| FrameError::BadHeader)?;
        if rest.is_empty() { Ok(header) } else { Err(FrameError::BadHeader) }
    }

    /// Decodes what the header begins with; what follows may be as a later version has it. A hello
    /// is looked at like this first, so that its version is told from damage.
    #[must_use]
    pub fn front<T: DeserializeOwned>(&self) -> Option<T> {
        postcard::take_from_bytes(&self.header).ok().map(|(front, _)| front)
    }

    /// Cuts the contents by these labels.
    ///
    /// # Errors
    /// [`FrameError::BadContents`] when there are more or fewer bytes.
    pub fn contents<'l>(
        &self,
        labels: impl IntoIterator<Item = &'l Label>,
    ) -> Result<Vec<Bytes>, FrameError> {
        let mut rest = self.contents.clone();
        let mut contents = Vec::new();
        for label in labels {
            if rest.len() < label.content_length() {
                return Err(FrameError::BadContents);
            }
            contents.push(rest.split_to(label.content_length()));
        }
        if rest.is_empty() { Ok(contents) } else { Err(FrameError::BadContents) }
    }

    /// Bytes of the encoded header: what decoding it may cost.
    #[must_use]
    pub fn header_length(&self) -> usize {
        self.header.len()
    }

    /// Whether nothing follows the header.
    #[must_use]
    pub fn has_contents(&self) -> bool {
        !self.contents.is_empty()
    }
}

/// Encodes a frame.
///
/// # Panics
/// When the frame is longer than 4 GiB or the header is not encodable: callers keep to the
/// limits, and headers are plain data.
pub fn encode<'b>(header: &impl Serialize, contents: impl IntoIterator<Item = &'b Bytes>) -> Bytes {
    let contents: Vec<&Bytes> = contents.into_iter().collect();
    let total: usize = contents.iter().map(|content| content.len()).sum();
    let mut frame = BytesMut::with_capacity(PREFIX + 256 + total);
    frame.put_bytes(0, PREFIX);
    let frame = postcard::to_extend(header, Extender(frame)).expect("headers are plain data");
    let mut frame = frame.0;
    let header_length = frame.len() - PREFIX;
    for content in contents {
        frame.put_slice(content);
    }
    let length = u32::try_from(frame.len() - 4).expect("frames are limited far below 4 GiB");
    let header_length = u32::try_from(header_length).expect("it is part of the frame");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame[8..PREFIX].copy_from_slice(&header_length.to_be_bytes());
    let crc = crc32c::crc32c(&frame[8..]);
    frame[4..8].copy_from_slice(&crc.to_be_bytes());
    frame.freeze()
}

/// `BytesMut` is `Extend<u8>` but not `Default + Extend` by value as postcard asks for.
struct Extender(BytesMut);

impl Extend<u8> for Extender {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, iter: I) {
        self.0.extend(iter);
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub struct Splitter {
    buffer: BytesMut,
    limit: usize,
}

impl Splitter {
    /// A splitter that refuses frames above `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }

    /// Changes the limit for the frames to come.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes what came on the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that wait for the rest of their frame, once all whole frames were taken.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Whether a part of a frame is waiting for its rest.
    #[must_use]
    pub fn is_mid_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The next whole frame, if it is here.
    ///
    /// # Errors
    /// See [`FrameError`]; the stream is of no use afterwards.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(prefix) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        if length < PREFIX - 4 {
            return Err(FrameError::BadLength);
        }
        if self.buffer.len() < 4 + length {
            self.buffer.reserve(4 + length - self.buffer.len());
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(4 + length).freeze();
        let crc = u32::from_be_bytes(*frame[4..].first_chunk().expect("the prefix is there"));
        if crc32c::crc32c(&frame[8..]) != crc {
            return Err(FrameError::Damaged);
        }
        let header = u32::from_be_bytes(*frame[8..].first_chunk().expect("the prefix is there"));
        let mut rest = frame.split_off(PREFIX);
        if header as usize > rest.len() {
            return Err(FrameError::BadLength);
        }
        let contents = rest.split_off(header as usize);
        Ok(Some(Frame { header: rest, contents }))
    }
}

/// Bytes before the header.
const PREFIX: usize = 12;

/// The longest frame before the peer is known: a hello and nothing else.
pub const HELLO_LENGTH_MAX: usize = 4 * 1024;

/// The longest frame between peers and clients that know each other: the largest body with its
/// head, receipt and room for the rest of the header.
pub const FRAME_LENGTH_MAX: usize = crate::message::BODY_LENGTH_MAX + 128 * 1024;

/// Where a batch of contents is cut so that frames stay well below [`FRAME_LENGTH_MAX`] unless
/// one message alone is larger.
pub const BATCH_BYTES: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests;
