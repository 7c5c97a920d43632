//! What all nodes of the small world have agreed on and handed out, and whether they may.

use std::collections::BTreeSet;

use rand::RngExt;

use super::world::{DRIFT, ERA, Lease, STEP, World};
use super::*;

const DELIVERIES_MAX: u32 = 2;

impl World {
    /// What a chosen round does to the copies of a node.
    pub(super) fn settle(&mut self, n: usize, round: &Round) {
        let disk = &mut self.nodes[n].disk;
        let late = round.late.iter().map(|entry| (entry, Verdict::Late));
        let out = round.out.iter().map(|(entry, why)| (entry, Verdict::Out(*why)));
        for (entry, verdict) in late.chain(out) {
            let m = Self::number(entry);
            if disk.copies.contains_key(&m) {
                match verdict {
                    Verdict::Late | Verdict::Out(Why::Dead) => {
                        disk.moved.insert(m, verdict);
                    }
                    Verdict::Out(Why::Lost) | Verdict::Released => {}
                    Verdict::Out(_) => {
                        disk.gone.insert(m);
                        disk.copies.remove(&m);
                    }
                }
            }
        }
        if let Some(pinned) = &round.change {
            disk.table = (round.n, pinned.clone());
            let nodes: Vec<_> = pinned.seats().map(|seat| seat.node.0 as usize).collect();
            disk.copies.values_mut().for_each(|list| list.extend(&nodes));
        }
    }

    /// A round is chosen: whether it may be.
    pub(super) fn agreed(&mut self, round: &Round) {
        if let Some(known) = self.truth.get(&round.n) {
            if known != round {
                self.fail(format!("P6: two values of round {}", round.n));
            }
            return;
        }
        self.truth.insert(round.n, round.clone());
        if round.up_to < self.up_to {
            self.fail(format!("P7: round {} moves the watermark back", round.n));
        }
        let latest = (ERA + self.now + 3 * DRIFT) as u64 * STEP;
        if round.up_to.time > latest {
            self.fail(format!("P14: the watermark of round {} is far ahead", round.n));
        }
        let was = self.up_to;
        self.up_to = was.max(round.up_to);
        let released = round.released.iter().map(|entry| (entry, Verdict::Released));
        let late = round.late.iter().map(|entry| (entry, Verdict::Late));
        let out = round.out.iter().map(|(entry, why)| (entry, Verdict::Out(*why)));
        for (entry, verdict) in released.chain(late).chain(out) {
            let m = Self::number(entry);
            match (self.verdicts.insert(m, verdict), verdict) {
                (None, _)
                | (Some(Verdict::Released), Verdict::Out(_))
                | (Some(Verdict::Out(Why::Lost)), Verdict::Late) => {}
                (Some(old), _) => self.fail(format!("P6: {m} was {old:?} and is {verdict:?}")),
            }
        }
        let built = self.built.iter().find(|(built, ..)| built == round);
        let asked = built.map_or(i64::MIN, |(_, asked, _)| *asked);
        for m in 0..self.letters.len() {
            let in_time = self.letters[m].safe.is_some_and(|safe| safe < asked);
            let left_out = match self.verdicts.get(&m) {
                None => true,
                Some(Verdict::Late) => {
                    self.stamp(m) > was && round.late.iter().any(|e| Self::number(e) == m)
                }
                Some(Verdict::Released | Verdict::Out(_)) => false,
            };
            if in_time && left_out && self.stamp(m) <= round.up_to {
                self.fail(format!("P6: {m} was confirmed in time and left out"));
            }
        }
        if let Some(pinned) = &round.change {
            self.hosts = (round.n, pinned.clone());
        }
    }

    /// What is released here and has neither moved nor gone, in its order.
    pub(super) fn pending(&self, n: usize) -> Vec<usize> {
        let node = &self.nodes[n];
        let pending = node.rounds.released().map(Self::number);
        pending.filter(|m| self.here(n, *m) != Here::Gone).collect()
    }

    /// Hands out what may be handed out, if anything may.
    pub(super) fn hand_out(&mut self, n: usize) {
        let (sight, now) = (self.sight(n), self.mono());
        let node = &self.nodes[n];
        let may = node.is_up && node.rounds.may_hand_out(self.planted.turn(now), &sight);
        if !may && !self.planted.hands_out(self, n) {
            return;
        }
        for other in (0..self.nodes.len()).filter(|other| *other != n) {
            let sight = self.sight(other);
            let rounds = &self.nodes[other].rounds;
            if self.nodes[other].is_up && rounds.may_hand_out(now, &sight) {
                self.fail(format!("P9: {n} and {other} have turns at once"));
            }
        }
        let withheld = self.nodes[n].rounds.withheld().map(|name| name.id.number as usize);
        let withheld: BTreeSet<_> = withheld.collect();
        let pending = self.planted.pending(self, n);
        for key in 0..3 {
            if self.nodes[n].leases.get(&key).is_some_and(|lease| self.now < lease.until) {
                continue;
            }
            self.nodes[n].leases.remove(&key);
            let mut group = Vec::new();
            for m in pending.iter().copied().filter(|m| self.letters[*m].key == key) {
                let count = self.nodes[n].disk.count.get(&m).copied().unwrap_or(0);
                let is_missing = !self.nodes[n].disk.copies.contains_key(&m);
                if withheld.contains(&m) || is_missing || count >= DELIVERIES_MAX {
                    break;
                }
                group.push(m);
                if group.len() == 2 || self.rng.random_bool(0.5) {
                    break;
                }
            }
            if !group.is_empty() {
                self.deliver(n, key, group);
            }
        }
    }

    fn deliver(&mut self, n: usize, key: u64, group: Vec<usize>) {
        for m in group.iter().copied() {
            *self.nodes[n].disk.count.entry(m).or_default() += 1;
            let elsewhere = self.nodes.iter().any(|node| node.disk.moved.contains_key(&m));
            if self.verdicts.get(&m) != Some(&Verdict::Released) || elsewhere {
                self.fail(format!("P6: {m} was handed out and is {:?}", self.verdicts.get(&m)));
            }
            let stamp = self.letters[m].stamp * 16 + m as i64;
            if !std::mem::replace(&mut self.letters[m].first, true) {
                let newest = self.newest_first.insert(key, stamp);
                if newest.is_some_and(|newest| newest > stamp) {
                    self.fail(format!("P5: {m} came first after something newer"));
                }
            }
        }
        let until = self.now + self.rng.random_range(8..=40);
        self.nodes[n].leases.insert(key, Lease { group, until, by: n });
        if self.rng.random_bool(0.5) {
            self.tell_leases(n);
        }
    }
}
