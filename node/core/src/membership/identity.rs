//! Who a member is in gossip, and which of two claims to one name wins.
//!
//! A node is its [`NodeId`]; that is what foca takes for the address, so a node that comes back
//! elsewhere is the same member. The generation settles conflicts: it starts at the boot counter
//! times 65,536, each renewal adds one, and a node that hears of a higher generation under its own
//! name (its disk was wiped, or somebody made one up) goes above it. It is therefore *at least*
//! the boot counter and never a substitute for it: sessions are named by boot counters.
//!
//! Invariant: of two different identities of one node exactly one wins.

use std::net::SocketAddr;

use gaggle_wire::NodeId;
use serde::{Deserialize, Serialize};

/// Settles which claim to a node's name is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Generation(u64);

impl Generation {
    /// Of a member that is only known by hearsay from an earlier run: every live one beats it.
    pub(crate) const UNKNOWN: Self = Self(0);
    /// 2^32 boots. A generation above it is a forgery: it could never be beaten.
    pub(crate) const MAX: Self = Self((1 << 48) - 1);

    /// The first generation of a run.
    pub(crate) const fn of_boot(boot: u64) -> Self {
        let boot = if boot < BOOT_LIMIT { boot } else { BOOT_LIMIT - 1 };
        Self(boot << RENEWAL_BITS)
    }

    /// The generation that beats this one; none when there is no room above it.
    pub(crate) fn next(self) -> Option<Self> {
        (self < Self::MAX).then_some(Self(self.0 + 1))
    }

    /// Whether somebody else may say that a member we know at `self` is at `claimed` by now.
    /// A node that restarts each second for a week stays below the bound.
    pub(super) const fn may_become(self, claimed: Self) -> bool {
        self.0 == 0 || claimed.0 <= self.0.saturating_add(JUMP_MAX)
    }

    /// Whether both can belong to one run of a node.
    pub(crate) const fn same_run(self, other: Self) -> bool {
        self.0 >> RENEWAL_BITS == other.0 >> RENEWAL_BITS
    }

    #[cfg(test)]
    pub(super) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// A member as foca sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) node: NodeId,
    pub(super) generation: Generation,
    pub(super) address: SocketAddr,
}

impl Identity {
    /// Whoever listens at `address`: the destination of an announcement to a seed.
    pub(super) const fn anyone(address: SocketAddr) -> Self {
        Self { node: ANYONE, generation: Generation::UNKNOWN, address }
    }

    /// Whether a node may call itself so: a name that is a name, an address that can be dialled.
    pub(super) fn is_plausible(&self) -> bool {
        let ip = self.address.ip();
        self.node != ANYONE
            && self.address.port() != 0
            && !ip.is_unspecified()
            && !ip.is_multicast()
    }
}

impl foca::Identity for Identity {
    type Addr = NodeId;

    fn renew(&self) -> Option<Self> {
        self.generation.next().map(|generation| Self { generation, ..*self })
    }

    fn addr(&self) -> NodeId {
        self.node
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        // The address breaks the tie between two processes that run under one name.
        (self.generation, self.address) > (adversary.generation, adversary.address)
    }
}

/// Stands for a node whose name is not known yet; no node may carry it.
pub(super) const ANYONE: NodeId = NodeId::NOBODY;

const RENEWAL_BITS: u32 = 16;
const BOOT_LIMIT: u64 = 1 << 32;
/// A million boots.
const JUMP_MAX: u64 = 1 << (20 + RENEWAL_BITS);

#[cfg(test)]
mod tests {
    use foca::Identity as _;

    use super::*;

    fn at(generation: u64, port: u16) -> Identity {
        let address = SocketAddr::from(([10, 0, 0, 1], port));
        Identity { node: NodeId(1), generation: Generation(generation), address }
    }

    #[test]
    fn of_two_claims_to_a_name_exactly_one_wins() {
        for (one, other) in [(at(1, 1), at(2, 1)), (at(2, 1), at(1, 9)), (at(1, 1), at(1, 2))] {
            assert_ne!(one.win_addr_conflict(&other), other.win_addr_conflict(&one));
        }
        assert!(!at(1, 1).win_addr_conflict(&at(1, 1)));
    }

    #[test]
    fn a_renewed_identity_beats_its_old_self_and_a_new_boot_beats_both() {
        let old = at(Generation::of_boot(7).0, 1);
        let renewed = old.renew().unwrap();
        let rebooted = at(Generation::of_boot(8).0, 1);
        assert!(renewed.win_addr_conflict(&old));
        assert!(rebooted.win_addr_conflict(&renewed));
        assert!(old.generation.same_run(renewed.generation));
        assert!(!old.generation.same_run(rebooted.generation));
    }

    #[test]
    fn generations_end_where_they_could_not_be_beaten() {
        assert_eq!(Generation::MAX.next(), None);
        assert!(Generation::of_boot(u64::MAX) <= Generation::MAX);
        assert!(Generation::of_boot(3).may_become(Generation::of_boot(1_000)));
        assert!(!Generation::of_boot(3).may_become(Generation::MAX));
        assert!(Generation::UNKNOWN.may_become(Generation::MAX));
    }

    #[test]
    fn an_address_that_cannot_be_dialled_is_not_plausible() {
        assert!(at(1, 1).is_plausible());
        assert!(!at(1, 0).is_plausible());
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 1));
        assert!(!Identity { address: nowhere, ..at(1, 1) }.is_plausible());
        assert!(!Identity::anyone(at(1, 1).address).is_plausible());
    }
}
