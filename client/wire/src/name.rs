//! Names: what a queue, a node, a process and a request are called.
//!
//! A name is parsed once, at the edge where it comes in, and is valid ever after: no code behind
//! the door checks it again. A [`QueueName`] that arrives in a frame is parsed by its
//! `Deserialize`, so a frame with a bad name is refused whole.
//!
//! What this file does not do: it does not say where things are (a node's addresses are in the
//! hello), nor which queue a name stands for (that is the table's affair).

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A node of the cluster: named in its certificate, the same for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u64);

/// Why a text is not the id of a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeIdError {
    /// It is no number of 64 bits.
    #[error("the id of a node is a number: {0}")]
    NotANumber(#[from] std::num::ParseIntError),
    /// See [`NodeId::NOBODY`].
    #[error("the number {nobody} is kept for no node", nobody = NodeId::NOBODY)]
    Reserved,
}

impl NodeId {
    /// Stands where nodes speak of one whose name they do not know; no node may carry it.
    pub const NOBODY: Self = Self(u64::MAX);
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for NodeId {
    type Err = NodeIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = Self(text.parse()?);
        if id == Self::NOBODY { Err(NodeIdError::Reserved) } else { Ok(id) }
    }
}

/// One run of a program that makes stamps: a random number drawn at each start of a node or a
/// client, and drawn anew whenever its clock must go back. It ends every stamp, so that no two
/// processes ever make the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId(pub u64);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The name of a queue: 1 to 75 characters of `[A-Za-z0-9._-]`.
///
/// Names that end in a reserved suffix (`.late`, `.dead`, `.reply`) are valid names, but only the
/// cluster itself creates queues that carry them: see [`QueueName::is_reserved`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QueueName(String);

/// Why a text is not the name of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QueueNameError {
    /// A name needs at least one character.
    #[error("a queue name cannot be empty")]
    Empty,
    /// A name has at most [`QueueName::LENGTH_MAX`] characters.
    #[error("a queue name has at most 75 characters, this one has {0}")]
    TooLong(usize),
    /// The character at this position is not one of `[A-Za-z0-9._-]`.
    #[error("a queue name is made of A-Z a-z 0-9 . _ -, but has {0:?}")]
    BadCharacter(char),
}

impl QueueName {
    /// The most characters a name can have: 80, as in SQS, less the longest reserved suffix.
    pub const LENGTH_MAX: usize = 75;

    /// Parses a name.
    ///
    /// # Errors
    /// See [`QueueNameError`]; nothing is changed by a refusal.
    pub fn parse(text: &str) -> Result<Self, QueueNameError> {
        if text.is_empty() {
            return Err(QueueNameError::Empty);
        }
        if let Some(bad) = text.chars().find(|c| !is_name_character(*c)) {
            return Err(QueueNameError::BadCharacter(bad));
        }
        if text.len() > Self::LENGTH_MAX {
            return Err(QueueNameError::TooLong(text.len()));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name ends in a suffix that the cluster keeps for its own queues.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        RESERVED_SUFFIXES.iter().any(|suffix| self.0.ends_with(suffix))
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names are ordered as their text is.
impl Borrow<str> for QueueName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for QueueName {
    type Err = QueueNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl TryFrom<String> for QueueName {
    type Error = QueueNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<QueueName> for String {
    fn from(name: QueueName) -> Self {
        name.0
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Side queues of a queue: what came too late, what had its chances, answers to requests.
const RESERVED_SUFFIXES: [&str; 3] = [".late", ".dead", ".reply"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_to_75_plain_characters() {
        assert!(QueueName::parse("orders.eu-1_x").is_ok());
        assert!(QueueName::parse(&"a".repeat(75)).is_ok());
        assert_eq!(QueueName::parse(""), Err(QueueNameError::Empty));
        assert_eq!(QueueName::parse(&"a".repeat(76)), Err(QueueNameError::TooLong(76)));
        assert_eq!(QueueName::parse("a b"), Err(QueueNameError::BadCharacter(' ')));
        assert_eq!(QueueName::parse("or\u{e9}"), Err(QueueNameError::BadCharacter('\u{e9}')));
    }

    #[test]
    fn a_bad_name_is_refused_when_it_is_decoded() {
        let good = postcard::to_stdvec("orders").unwrap();
        assert!(postcard::from_bytes::<QueueName>(&good).is_ok());
        let bad = postcard::to_stdvec("or/ders").unwrap();
        assert!(postcard::from_bytes::<QueueName>(&bad).is_err());
    }

    #[test]
    fn names_of_side_queues_are_reserved() {
        assert!(QueueName::parse("orders.late").unwrap().is_reserved());
        assert!(!QueueName::parse("late").unwrap().is_reserved());
    }
}
