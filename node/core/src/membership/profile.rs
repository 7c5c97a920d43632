//! What a node says of itself besides being alive: zone, client address, ready, slow, space.
//!
//! It travels as a custom broadcast, passed on by whoever finds it new, and in the session hello.
//! Broadcasts are not reliable and newcomers do not get old ones, so a node tells its profile
//! anew, under a higher sequence number, whenever a member turns up and once in a while.
//!
//! Layout: one byte that says how the rest is laid out, then postcard of the fields below, 300
//! bytes at most; nothing may follow.
//!
//! Invariant: of one node's profiles the one with the higher (generation, sequence) stays.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use gaggle_wire::NodeId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::identity::{Generation, Identity};
use crate::space::Space;

/// Where a node stands: copies of a message go to different zones first. Empty means unsaid.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Zone(String);

/// Why a text is not a zone. Whoever wrote it must change it; nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ZoneError {
    /// It is longer than [`Zone::LENGTH_MAX`].
    #[error("a zone has at most 64 characters, this one has {0}")]
    TooLong(usize),
    /// It has a character other than those of queue names.
    #[error("a zone is made of A-Z a-z 0-9 . _ -, but has {0:?}")]
    BadCharacter(char),
}

impl Zone {
    /// The most characters: a cloud's zone names have about twenty.
    pub(crate) const LENGTH_MAX: usize = 64;

    /// Parses a zone; the empty text is one.
    pub(crate) fn parse(text: &str) -> Result<Self, ZoneError> {
        let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if let Some(bad) = text.chars().find(|c| !fits(c)) {
            return Err(ZoneError::BadCharacter(bad));
        }
        if text.len() > Self::LENGTH_MAX {
            return Err(ZoneError::TooLong(text.len()));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether two are the same, for whoever asks at every packet. Mostly neither is said, and to
    /// compare no bytes with none, at no address, takes some processors a fault each time.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && (self.0.is_empty() || self == other)
    }

    /// The zone as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Zone {
    type Error = ZoneError;

    fn try_from(text: String) -> Result<Self, ZoneError> {
        Self::parse(&text)
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.0
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// Where it stands.
    pub(crate) zone: Zone,
    /// Where clients reach it.
    pub(crate) client_address: SocketAddr,
    /// How ready it is.
    pub(crate) readiness: Readiness,
}

/// How ready a node says that it is. Steers who is given work and copies, and never what is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readiness {
    /// Whether it has its marks, disk and clock in order, and may be given work.
    pub(crate) ready: bool,
    /// Whether its disk or loop lags: custody goes elsewhere.
    pub(crate) slow: bool,
    /// How much room its disk has.
    pub(crate) space: Space,
}

/// Which of a node's profiles is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Edition {
    pub(super) generation: Generation,
    pub(super) sequence: u32,
}

/// A profile on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Notice {
    pub(super) node: NodeId,
    pub(super) edition: Edition,
    pub(super) profile: Profile,
}

/// Why bytes are not a notice. A peer made them; nothing was taken from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a profile notice")]
pub(super) struct NotANotice;

impl Notice {
    pub(super) fn encode(&self) -> Vec<u8> {
        let bytes = postcard::to_extend(self, vec![LAYOUT])
            .expect("a notice is plain data and a vector takes all of it");
        assert!(bytes.len() <= NOTICE_SIZE_MAX, "a zone is short, so a notice fits its limit");
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, NotANotice> {
        let Some((&LAYOUT, fields)) = bytes.split_first() else { return Err(NotANotice) };
        if bytes.len() > NOTICE_SIZE_MAX {
            return Err(NotANotice);
        }
        match postcard::take_from_bytes(fields) {
            Ok((notice, [])) => Ok(notice),
            Ok(_) | Err(_) => Err(NotANotice),
        }
    }
}

/// The newest profile of each node.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    newest: BTreeMap<NodeId, (Edition, Profile)>,
}

impl Profiles {
    /// Keeps the profile if it is newer than the one at hand. The caller has limited the nodes.
    pub(super) fn keep(&mut self, notice: Notice) {
        let newer = self.newest.get(&notice.node).is_none_or(|(kept, _)| *kept < notice.edition);
        if newer {
            self.newest.insert(notice.node, (notice.edition, notice.profile));
        }
    }

    /// The newest profile of a node, if it belongs to the run that `generation` is of.
    pub(super) fn of(&self, node: NodeId, generation: Generation) -> Option<&Profile> {
        let (edition, profile) = self.newest.get(&node)?;
        edition.generation.same_run(generation).then_some(profile)
    }

    /// Where a node stands, as it said last.
    pub(super) fn zone(&self, node: NodeId) -> Option<&Zone> {
        self.newest.get(&node).map(|(_, profile)| &profile.zone)
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.newest.remove(&node);
    }

    pub(super) fn knows(&self, node: NodeId) -> bool {
        self.newest.contains_key(&node)
    }

    pub(super) fn len(&self) -> usize {
        self.newest.len()
    }
}

/// Decides for foca which notices are news and passed on.
#[derive(Debug)]
pub(super) struct Spreading {
    me: NodeId,
    nodes_max: usize,
    passed_on: BTreeMap<NodeId, Edition>,
}

impl Spreading {
    pub(super) const fn new(me: NodeId, nodes_max: usize) -> Self {
        Self { me, nodes_max, passed_on: BTreeMap::new() }
    }
}

impl foca::BroadcastHandler<Identity> for Spreading {
    type Key = Whose;
    type Error = NotANotice;

    fn receive_item(
        &mut self,
        data: &[u8],
        sender: Option<&Identity>,
    ) -> Result<Option<Whose>, NotANotice> {
        let notice = Notice::decode(data)?;
        // Nobody but this node says what this node is.
        if sender.is_none() || notice.node == self.me {
            return Ok(sender.is_none().then_some(Whose(notice.node)));
        }
        let known = self.passed_on.get(&notice.node).copied();
        let is_news = known.is_none_or(|edition| edition < notice.edition);
        if !is_news || (known.is_none() && self.passed_on.len() >= self.nodes_max) {
            return Ok(None);
        }
        self.passed_on.insert(notice.node, notice.edition);
        Ok(Some(Whose(notice.node)))
    }
}

/// Whose profile a broadcast carries: a newer one takes the place of an older one.
#[derive(Debug)]
pub(super) struct Whose(NodeId);

impl foca::Invalidates for Whose {
    fn invalidates(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// What a custom broadcast may take; several fit beside the updates of one packet.
pub(super) const NOTICE_SIZE_MAX: usize = 300;
const LAYOUT: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(zone: &str, client_address: SocketAddr) -> Notice {
        let zone = Zone::parse(zone).unwrap();
        let edition = Edition { generation: Generation::of_boot(3), sequence: 2 };
        let readiness = Readiness { ready: true, slow: false, space: Space::Scarce };
        let profile = Profile { zone, client_address, readiness };
        Notice { node: NodeId(5), edition, profile }
    }

    #[test]
    fn a_notice_keeps_its_bytes() {
        let bytes = notice("a1", SocketAddr::from(([10, 0, 0, 9], 7400))).encode();
        let golden =
            [2, 5, 0x80, 0x80, 0x0c, 2, 2, b'a', b'1', 0, 10, 0, 0, 9, 0xe8, 0x39, 1, 0, 1];
        assert_eq!(bytes, golden);
        assert_eq!(Notice::decode(&bytes).map(|notice| notice.encode()), Ok(bytes));
    }

    #[test]
    fn the_largest_notice_fits_its_limit() {
        let address = SocketAddr::from(([0xffff_u16; 8], u16::MAX));
        let mut largest = notice(&"z".repeat(Zone::LENGTH_MAX), address);
        largest.node = NodeId(u64::MAX - 1);
        largest.edition = Edition { generation: Generation::MAX, sequence: u32::MAX };
        let bytes = largest.encode();
        assert!(bytes.len() < NOTICE_SIZE_MAX);
        assert_eq!(Notice::decode(&bytes), Ok(largest));
    }

    #[test]
    fn cut_trailing_and_foreign_bytes_are_no_notice() {
        let bytes = notice("a", SocketAddr::from(([10, 0, 0, 9], 7400))).encode();
        for length in 0..bytes.len() {
            assert_eq!(Notice::decode(&bytes[..length]), Err(NotANotice));
        }
        assert_eq!(Notice::decode(&[&bytes[..], &[0]].concat()), Err(NotANotice));
        assert_eq!(Notice::decode(&[&[LAYOUT + 1], &bytes[1..]].concat()), Err(NotANotice));
    }

    #[test]
    fn a_zone_is_short_and_plain() {
        assert_eq!(Zone::parse("eu-1.a_b").map(|zone| zone.to_string()), Ok("eu-1.a_b".into()));
        assert_eq!(Zone::parse(""), Ok(Zone::default()));
        assert_eq!(Zone::parse("a b"), Err(ZoneError::BadCharacter(' ')));
        assert_eq!(Zone::parse(&"a".repeat(65)), Err(ZoneError::TooLong(65)));
    }
}
