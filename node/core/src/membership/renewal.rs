//! Renewal: how a node whose identity counts no more is told so, and goes on under a new one.
//!
//! Part of [`Membership`]. An identity counts no more when others hold it to be down, or know a
//! newer one of the same node: an earlier run of it, before its disk was lost, or a twin. Who hears
//! such a node says so, and it takes an identity above the one that beat it. foca alone would renew
//! one by one, towards a claim that is billions away, and answer every single answer meanwhile.
//!
//! Invariants, so that no two nodes answer each other for ever:
//! - To a packet under an outdated identity one *correction* is said, and foca does not see it.
//! - A correction is not corrected, and neither is the word that somebody is down (foca's
//!   `TurnUndead`); to the one foca says at most the other, to the other nothing unless it renews.
//! - In answer to packets a node takes no more than [`RENEWALS`] identities in [`RENEWAL_PAUSE`].
//!   What comes above that is not taken: whoever sent it says it again to whatever it hears next.
//!
//! Every chain of answers therefore ends after a few packets, or at a renewal, and those are
//! counted. What this file does not do: it judges neither who is down nor which process under a
//! name goes on.

use std::time::Duration;

use foca::{Identity as _, Message, State};

use super::identity::Identity;
use super::packet::{Packet, correction};
use super::timers::Task;
use super::told::Told;
use super::{Membership, Output, Standing};
use crate::now::Mono;

impl Membership {
    /// Tops a newer claim to the own name: after a wiped disk the others remember a higher
    /// generation, and what this node says would be void for ever.
    pub(super) fn defend_name(&mut self, now: Mono, read: &Packet, out: &mut Vec<Output>) {
        let me = self.me();
        let own = read.updates.iter().filter(|update| update.id().node == me.node);
        let claims = own.map(|update| (*update.id(), update.state()));
        let highest = claims
            // Whoever corrects us knows this claim from somewhere: see `correct`.
            .chain([(read.header.dst, State::Alive)])
            .filter(|(claim, _)| claim.win_addr_conflict(&me))
            .max_by_key(|(claim, _)| (claim.generation, claim.address));
        let Some((claim, state)) = highest else { return };
        if state != State::Down && claim.address != me.address {
            self.ask_rival(now, claim.address, out);
        }
        let most = if claim.address == me.address { RENEWALS } else { 1 };
        let has_turn = self.renewals(now) < most;
        let Some(generation) = claim.generation.next().filter(|_| has_turn) else { return };
        self.count_renewal(now);
        self.timers.drop_if(|task| matches!(task, Task::Swim(_)));
        self.standing = Standing::Alone { pause: self.config.reach_alone.0 };
        let mut told = Told::default();
        let changed = self.swim.change_identity(Identity { generation, ..me }, &mut told);
        self.absorb(now, told, out);
        match changed {
            Ok(()) => self.go_on_renewed(now, out),
            Err(error) => self.survive(now, &error, out),
        }
    }

    /// What this node knows a node as that speaks under an older claim to its name.
    pub(super) fn newer_than(&self, src: &Identity) -> Option<Identity> {
        let mut known = self.swim.iter_membership_state().map(|member| *member.id());
        known.find(|id| id.node == src.node && id.win_addr_conflict(src))
    }

    /// Tells a node that speaks under an outdated identity what it is known as: it cannot learn
    /// that from anybody who ignores it. Addressed to the claim that wins, carried to the node that
    /// lost; if that was an old packet of a node that has the claim itself, nothing comes of it.
    pub(super) fn correct(&self, read: &Packet, newer: Identity, out: &mut Vec<Output>) {
        if matches!(read.header.message, Message::TurnUndead | Message::Broadcast) {
            return;
        }
        let src = read.header.src;
        let data = correction(self.me(), newer);
        out.push(Output::Packet { to: src.address, node: Some(src.node), data });
    }

    /// Whether foca may see a packet: not if it would renew once more than it may.
    pub(super) fn may_take(&self, now: Mono, read: &Packet) -> bool {
        let me = self.me();
        let turned = read.header.message == Message::TurnUndead;
        let renews = turned || read.updates.iter().any(|update| *update.id() == me && ends(update));
        read.header.dst != me || !renews || self.renewals(now) < RENEWALS
    }

    /// One more identity was taken in answer to a packet.
    pub(super) fn count_renewal(&mut self, now: Mono) {
        let since = self.recent_renewals(now).map_or(now, |(since, _)| since);
        self.moments.renewed = Some((since, self.renewals(now) + 1));
    }

    fn renewals(&self, now: Mono) -> u32 {
        self.recent_renewals(now).map_or(0, |(_, times)| times)
    }

    fn recent_renewals(&self, now: Mono) -> Option<(Mono, u32)> {
        self.moments.renewed.filter(|(since, _)| now.since(*since) < RENEWAL_PAUSE)
    }
}

/// Whether no objection is left to what is said of the own identity: none to being down, and none
/// to a suspicion at the last incarnation there is.
fn ends(update: &foca::Member<Identity>) -> bool {
    match update.state() {
        State::Alive => false,
        State::Suspect => update.incarnation() == u16::MAX,
        State::Down => true,
    }
}

/// Two processes under one name would top each other without end; it takes a moment to find out
/// which of them has to end, so a claim from another address is topped once in this time.
const RENEWAL_PAUSE: Duration = Duration::from_secs(1);
/// How often a node renews itself meanwhile. Of a disk that is lost again and again several claims
/// go round, one per node at most; each that is topped tops all below it.
const RENEWALS: u32 = 4;
