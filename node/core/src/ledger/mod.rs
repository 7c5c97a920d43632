//! The ledger: what a node writes down, and in which bytes.
//!
//! All rows of a node lie in one ordered key space; [`key`] draws the keys, [`record`] the
//! values. A row is small, but for messages: there the core knows only the header of the value,
//! and the runtime puts the content behind it. Reading rows in key order is what the core is
//! rebuilt from.
//!
//! Invariants: every value starts with a version byte; a message's header carries a checksum
//! over key and header, and the label in it one over the content, so no damaged row is taken for
//! a good one. What this room does not do: it does not store, it only says what to store.

pub mod key;
pub mod record;

pub use key::{Key, MessageKey};
pub use record::{MessageRecord, RecordError};

use gaggle_wire::Label;

/// One change of the rows. All of a batch become durable together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a row.
    Put {
        /// See [`key`].
        key: Vec<u8>,
        /// See [`record`].
        value: Vec<u8>,
    },
    /// Sets the row of a message; the runtime puts its content behind the header.
    PutMessage {
        /// Which message.
        key: MessageKey,
        /// The encoded [`MessageRecord`].
        header: Vec<u8>,
        /// By which the runtime knows the right content.
        label: Label,
    },
    /// Changes the header of a stored message and leaves its content; nothing if it is not there.
    PutHeader {
        /// Which message.
        key: MessageKey,
        /// The encoded [`MessageRecord`].
        header: Vec<u8>,
    },
    /// Removes a row, if it is there.
    Delete {
        /// See [`key`].
        key: Vec<u8>,
    },
    /// Removes all rows from the first key up to before the second.
    DeleteRange {
        /// The first key.
        from: Vec<u8>,
        /// The first key that stays.
        to: Vec<u8>,
    },
}

/// A row as the store gives it back. Of a message only the header is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// See [`key`].
    pub key: Vec<u8>,
    /// See [`record`]; for a message without the content.
    pub value: Vec<u8>,
}

/// The part of a stored value that belongs into a [`Row`]: all of it, or the header of a message.
#[must_use]
pub fn row_part<'v>(key: &[u8], value: &'v [u8]) -> &'v [u8] {
    if MessageKey::is_message(key) {
        &value[..MessageRecord::header_length(value).min(value.len())]
    } else {
        value
    }
}
