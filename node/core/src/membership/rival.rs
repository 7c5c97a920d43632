//! Two processes under one name: which of them goes on.
//!
//! Part of [`Membership`]. Somebody else may be alive under the own name: a certificate was copied,
//! or an earlier run of this node still works at another address. Whoever hears of such a rival
//! asks at its address, with a [`Claim`], and whoever is asked answers with one. The later process
//! ends, but only once the earlier one has answered its own question; so a node that came back
//! never ends because of what is still said of its dead self.
//!
//! Invariant: of two processes at most one ends. What this file does not do: it trusts the
//! transport that a packet under the own name comes from somebody with a certificate of that name.

use std::net::SocketAddr;
use std::time::Duration;

use gaggle_wire::NodeId;
use serde::{Deserialize, Serialize};

use super::identity::{ANYONE, Identity};
use super::packet::{Packet, PacketRefused};
use super::{Membership, Output, Standing};
use crate::now::Mono;

/// What a process says to another one under its name. Packets of foca begin with the name of who
/// sent them; this one begins with a name that nobody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    nobody: NodeId,
    /// Which process it is.
    run: u64,
    /// For how long it has been running, in milliseconds.
    age_ms: u64,
    /// Where it listens.
    address: SocketAddr,
    /// Whose question it answers; `None` when it asks.
    answers: Option<u64>,
}

impl Claim {
    fn decode(packet: &[u8]) -> Option<Self> {
        let (claim, rest): (Self, _) = postcard::take_from_bytes(packet).ok()?;
        (claim.nobody == ANYONE && rest.is_empty()).then_some(claim)
    }
}

impl Membership {
    /// Somebody at this address is said to be alive under the own name: is it?
    pub(super) fn ask_rival(&mut self, now: Mono, address: SocketAddr, out: &mut Vec<Output>) {
        let me = self.me();
        let recently = self.moments.asked.is_some_and(|at| now.since(at) < ASK_PAUSE);
        let elsewhere = address != me.address && Identity { address, ..me }.is_plausible();
        if elsewhere && !recently {
            self.moments.asked = Some(now);
            out.push(Output::Rival { address });
            self.claim(now, address, None, out);
        }
    }

    /// A packet came under the own name.
    pub(super) fn own_name(
        &mut self,
        now: Mono,
        packet: &[u8],
        out: &mut Vec<Output>,
    ) -> Result<(), PacketRefused> {
        let me = self.me().node;
        if let Some(claim) = Claim::decode(packet) {
            self.claimed(now, &claim, out);
            return Ok(());
        }
        let refused = Packet::parse(packet, me, me).err().unwrap_or(PacketRefused::Undecodable);
        if let PacketRefused::OwnName(address) = refused {
            self.ask_rival(now, address, out);
        }
        Err(refused)
    }

    fn claimed(&mut self, now: Mono, claim: &Claim, out: &mut Vec<Output>) {
        if claim.run == self.run {
            return;
        }
        match claim.answers {
            None => {
                self.claim(now, claim.address, Some(claim.run), out);
                // It may not have been heard of yet, and only an answer ends this one.
                self.ask_rival(now, claim.address, out);
            }
            Some(run) if run == self.run && self.is_later_than(now, claim) => {
                self.standing = Standing::Left;
                self.timers.drop_if(|_| true);
                out.push(Output::Outlived { by: claim.address });
            }
            Some(_) => {}
        }
    }

    fn claim(&self, now: Mono, to: SocketAddr, answers: Option<u64>, out: &mut Vec<Output>) {
        let (run, address) = (self.run, self.me().address);
        let claim = Claim { nobody: ANYONE, run, age_ms: self.age_ms(now), address, answers };
        let data = postcard::to_stdvec(&claim).expect("a claim has no part that cannot be written");
        out.push(Output::Packet { to, node: None, data: data.into() });
    }

    /// Whether the other process was started earlier. Ages that differ by less than the way of a
    /// packet may change are taken for equal, and the run decides; so no two end each other.
    fn is_later_than(&self, now: Mono, claim: &Claim) -> bool {
        let age_ms = self.age_ms(now);
        if claim.age_ms.abs_diff(age_ms) > SAME_AGE_MS {
            claim.age_ms > age_ms
        } else {
            claim.run < self.run
        }
    }

    fn age_ms(&self, now: Mono) -> u64 {
        u64::try_from(now.since(self.moments.started).as_millis()).unwrap_or(u64::MAX)
    }
}

/// How often somebody under the own name is asked.
const ASK_PAUSE: Duration = Duration::from_secs(1);
/// Above the way of a packet in a cluster. On a longer way both may take themselves for the earlier
/// one, and ask again.
const SAME_AGE_MS: u64 = 100;
