//! The message: who it is, what is known of it without looking inside, and what is inside.
//!
//! A message travels in two parts. Its [`Label`] is all that a node decides on: id, stamp,
//! sizes, checksum, delay. Its content, head (ordering key and attributes) and body, is one run
//! of bytes that is made once, by the producer, and never encoded again: nodes store it, copy it
//! and hand it out as it came. The checksum in the label covers the content from the producer to
//! the consumer, so bit rot anywhere between is found (P2).
//!
//! What this file does not do: it does not know queues, copies or leases.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{ProcessId, Stamp};

/// The id of a message within its queue partition. Producers number densely from 1 per queue
/// partition, so what a host holds of a process is a range and not a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageId {
    /// The process that sent it.
    pub process: ProcessId,
    /// The how-manieth message of that process in this partition it is, from 1.
    pub number: u64,
}

/// What is known of a message without looking at its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The number of its id; the process of its id is the process of its stamp.
    pub number: u64,
    /// When it was produced. One id has one stamp for ever.
    pub stamp: Stamp,
    /// Bytes of the encoded head (key and attributes); 0 when it has neither.
    pub head_length: u16,
    /// Bytes of the body.
    pub body_length: u32,
    /// crc32c of the content, head and body together.
    pub crc: u32,
    /// Milliseconds after its acceptance before it may be handed out.
    pub delay_ms: u64,
    /// The [hash](crate::key_hash) of its ordering key; 0 for none. Keys with one hash are ordered
    /// as one.
    pub key: u64,
}

impl Label {
    /// The id of the message.
    #[must_use]
    pub fn id(&self) -> MessageId {
        MessageId { process: self.stamp.process, number: self.number }
    }

    /// Bytes of the content.
    #[must_use]
    pub fn content_length(&self) -> usize {
        usize::from(self.head_length) + self.body_length as usize
    }

    /// Whether this content is the one that the label was made for.
    #[must_use]
    pub fn matches(&self, content: &[u8]) -> bool {
        content.len() == self.content_length() && crc32c::crc32c(content) == self.crc
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// Any bytes.
    Bytes(Bytes),
}

impl AttributeValue {
    fn length(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Named values beside the body: at most 32, keys of 1 to 64 characters `[A-Za-z0-9._-]`, keys
/// and values together at most 16 KiB (the limits of SQS and NATS headers lie near).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, AttributeValue>", into = "BTreeMap<String, AttributeValue>")]
pub struct Attributes(BTreeMap<String, AttributeValue>);

/// Why an attribute, an ordering key or an encoded head is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The key of an attribute is not 1 to 64 characters of `[A-Za-z0-9._-]`.
    #[error("an attribute's key is 1 to 64 characters of A-Z a-z 0-9 . _ -, not {0:?}")]
    BadAttributeKey(String),
    /// More than [`Attributes::COUNT_MAX`].
    #[error("a message has at most 32 attributes")]
    TooManyAttributes,
    /// More than [`Attributes::BYTES_MAX`] in keys and values together.
    #[error("the attributes of a message have at most 16 KiB together")]
    AttributesTooLarge,
    /// The ordering key is empty or longer than [`KEY_LENGTH_MAX`].
    #[error("an ordering key has 1 to 256 bytes")]
    BadOrderingKey,
    /// The body is longer than any queue takes.
    #[error("a body has at most 16 MiB, this one has {0} bytes")]
    BodyTooLarge(usize),
    /// The head is not what a producer encodes.
    #[error("the head of the message cannot be decoded")]
    BadHead,
}

impl Attributes {
    /// The most attributes of one message.
    pub const COUNT_MAX: usize = 32;
    /// The most bytes of keys and values together.
    pub const BYTES_MAX: usize = 16 * 1024;

    /// Sets one attribute.
    ///
    /// # Errors
    /// When the key is bad or a limit would be passed; the attributes stay as they were.
    pub fn insert(
        &mut self,
        key: impl Into<String>,
        value: impl Into<AttributeValue>,
    ) -> Result<(), MessageError> {
        let (key, value) = (key.into(), value.into());
        let mut changed = self.0.clone();
        changed.insert(key, value);
        *self = Self::try_from(changed)?;
        Ok(())
    }

    /// The value under this key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&AttributeValue> {
        self.0.get(key)
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, AttributeValue>> for Attributes {
    type Error = MessageError;

    fn try_from(map: BTreeMap<String, AttributeValue>) -> Result<Self, MessageError> {
        if map.len() > Self::COUNT_MAX {
            return Err(MessageError::TooManyAttributes);
        }
        if let Some(bad) = map.keys().find(|key| !is_attribute_key(key)) {
            return Err(MessageError::BadAttributeKey(bad.clone()));
        }
        let bytes: usize = map.iter().map(|(key, value)| key.len() + value.length()).sum();
        if bytes > Self::BYTES_MAX {
            return Err(MessageError::AttributesTooLarge);
        }
        Ok(Self(map))
    }
}

impl From<Attributes> for BTreeMap<String, AttributeValue> {
    fn from(attributes: Attributes) -> Self {
        attributes.0
    }
}

/// What a producer gives and a consumer gets: ordering key, attributes and body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Which order the message belongs to, if any.
    pub key: Option<Bytes>,
    /// Named values beside the body.
    pub attributes: Attributes,
    /// Opaque bytes.
    pub body: Bytes,
}

#[derive(Serialize, Deserialize)]
struct Head {
    key: Option<Bytes>,
    attributes: Attributes,
}

impl Message {
    /// A message with a body and nothing else.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// Encodes the content, once and for all, and the label for it.
    ///
    /// # Errors
    /// When the key or the body is beyond what any queue takes.
    pub fn pack(
        &self,
        number: u64,
        stamp: Stamp,
        delay_ms: u64,
    ) -> Result<(Label, Bytes), MessageError> {
        if self.key.as_ref().is_some_and(|key| key.is_empty() || key.len() > KEY_LENGTH_MAX) {
            return Err(MessageError::BadOrderingKey);
        }
        if self.body.len() > BODY_LENGTH_MAX {
            return Err(MessageError::BodyTooLarge(self.body.len()));
        }
        let head = self.encode_head();
        let content = if head.is_empty() {
            self.body.clone()
        } else {
            let mut joined = BytesMut::with_capacity(head.len() + self.body.len());
            joined.put_slice(&head);
            joined.put_slice(&self.body);
            joined.freeze()
        };
        let label = Label {
            number,
            stamp,
            head_length: u16::try_from(head.len()).expect("key and attributes are limited"),
            body_length: u32::try_from(self.body.len()).expect("bodies are limited"),
            crc: crc32c::crc32c(&content),
            delay_ms,
            key: self.key.as_ref().map_or(0, |key| crate::key_hash(key)),
        };
        Ok((label, content))
    }

    /// Takes a content apart again.
    ///
    /// # Errors
    /// [`MessageError::BadHead`] when the content is not one that [`Message::pack`] made.
    pub fn unpack(label: &Label, content: &Bytes) -> Result<Self, MessageError> {
        let head_length = usize::from(label.head_length);
        if content.len() != label.content_length() {
            return Err(MessageError::BadHead);
        }
        let body = content.slice(head_length..);
        if head_length == 0 {
            return Ok(Self::new(body));
        }
        let (head, rest) = postcard::take_from_bytes::<Head>(&content[..head_length])
            .map_err(|_| MessageError::BadHead)?;
        if !rest.is_empty() {
            return Err(MessageError::BadHead);
        }
        Ok(Self { key: head.key, attributes: head.attributes, body })
    }

    fn encode_head(&self) -> Vec<u8> {
        if self.key.is_none() && self.attributes.is_empty() {
            return Vec::new();
        }
        let head = Head { key: self.key.clone(), attributes: self.attributes.clone() };
        postcard::to_stdvec(&head).expect("a head of limited size is always encodable")
    }
}

fn is_attribute_key(key: &str) -> bool {
    (1..=64).contains(&key.len())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// The most bytes of an ordering key: room for a path or two uuids.
pub const KEY_LENGTH_MAX: usize = 256;

/// The largest body that any queue takes. Larger things belong into an object store.
pub const BODY_LENGTH_MAX: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { time: 5, count: 0, process: ProcessId(7) };

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let mut message = Message::new("hello");
        message.key = Some(Bytes::from_static(b"k"));
        message.attributes.insert("line", "12").unwrap();
        let (label, content) = message.pack(3, STAMP, 0).unwrap();
        assert!(label.matches(&content));
        assert_eq!(Message::unpack(&label, &content).unwrap(), message);
        assert_eq!(label.id(), MessageId { process: ProcessId(7), number: 3 });
    }

    #[test]
    fn a_plain_message_has_no_head() {
        let (label, content) = Message::new("hello").pack(1, STAMP, 0).unwrap();
        assert_eq!((label.head_length, &content[..]), (0, &b"hello"[..]));
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let (label, content) = Message::new("hello").pack(1, STAMP, 0).unwrap();
        let mut bad = content.to_vec();
        bad[2] ^= 1;
        assert!(!label.matches(&bad));
        assert!(!label.matches(&content[1..]));
    }

    #[test]
    fn attributes_have_limits() {
        let mut attributes = Attributes::default();
        assert!(attributes.insert("", "x").is_err());
        assert!(attributes.insert("a b", "x").is_err());
        assert!(attributes.insert("a".repeat(65), "x").is_err());
        assert_eq!(
            attributes.insert("a", "x".repeat(Attributes::BYTES_MAX)),
            Err(MessageError::AttributesTooLarge)
        );
        for i in 0..Attributes::COUNT_MAX {
            attributes.insert(format!("k{i}"), "v").unwrap();
        }
        assert_eq!(attributes.insert("more", "v"), Err(MessageError::TooManyAttributes));
    }
}
