//! What a node of the small world does with what it hears.

use std::collections::BTreeSet;

use super::world::{Lease, Sentence, World};
use super::*;

impl World {
    /// The next sentence on the way between two nodes arrives, if they are still in that session.
    pub(super) fn hear(&mut self, from: usize, to: usize) {
        if self.is_cut(from, to) {
            return;
        }
        let Some(queue) = self.under_way.get_mut(&(from, to)) else { return };
        let next = queue.pop_front();
        if queue.is_empty() {
            self.under_way.remove(&(from, to));
        }
        let Some((id, sentence)) = next else { return };
        let session = self.nodes[to].sessions.get(&from);
        if self.nodes[to].is_up && session.is_some_and(|session| session.id == id) {
            self.take_in(from, to, sentence);
        }
    }

    fn take_in(&mut self, from: usize, to: usize, sentence: Sentence) {
        match sentence {
            Sentence::Word(word) => {
                let seat = self.seat_of(from);
                let lie = self.planted.fast_by(&word);
                self.nodes[to].offset += lie;
                self.call(to, |rounds, around| rounds.handle(around, seat, word));
                self.nodes[to].offset -= lie;
            }
            Sentence::Mark => self.marked(from, to),
            Sentence::Again => self.put(to, from, Sentence::Mark),
            Sentence::Yield => {
                if let Some(session) = self.nodes[to].sessions.get_mut(&from) {
                    session.is_yielded_to = true;
                }
            }
            Sentence::Table(changed, pinned) => {
                if changed > self.nodes[to].disk.table.0 {
                    self.nodes[to].disk.table = (changed, pinned);
                }
            }
            Sentence::Copy(m, list, moved) => {
                let is_taken = self.take(to, m, list, moved);
                let answer = if is_taken { Sentence::Held(m) } else { Sentence::Gone(m) };
                self.put(to, from, answer);
            }
            Sentence::Held(m) => {
                if let Some(list) = self.nodes[to].disk.copies.get_mut(&m) {
                    list.insert(from);
                }
                self.held(to, from, m);
            }
            Sentence::Gone(m) => self.bury(to, m),
            Sentence::Moved(m, verdict) => {
                let disk = &mut self.nodes[to].disk;
                let is_dead = disk.moved.get(&m) == Some(&Verdict::Out(Why::Dead));
                if disk.copies.contains_key(&m) && !disk.gone.contains(&m) && !is_dead {
                    disk.moved.insert(m, verdict);
                }
            }
            Sentence::Leases(leases, counts) => {
                for (key, lease) in leases {
                    self.hear_lease(to, key, lease);
                }
                let known = &mut self.nodes[to].disk.count;
                for (m, count) in counts {
                    let own = known.entry(m).or_default();
                    *own = count.max(*own);
                }
            }
            Sentence::Need(m) => self.give(to, from, m),
        }
    }

    fn marked(&mut self, from: usize, to: usize) {
        let Some(session) = self.nodes[to].sessions.get_mut(&from) else { return };
        session.is_marked = true;
        let yields = from < to && !session.has_yielded;
        if yields {
            session.has_yielded = true;
            self.give_all(to, from);
            let node = &self.nodes[to];
            let leases = Sentence::Leases(node.leases.clone(), node.disk.count.clone());
            self.put(to, from, leases);
            if !self.serves(to) {
                self.call(to, |rounds, around| rounds.stop(around.sight));
            }
            self.put(to, from, Sentence::Yield);
        }
    }

    fn hear_lease(&mut self, n: usize, key: u64, mut lease: Lease) {
        let node = &mut self.nodes[n];
        lease.group.retain(|m| !node.disk.gone.contains(m));
        let is_later = node.leases.get(&key).is_none_or(|own| own.until < lease.until);
        if !lease.group.is_empty() && is_later && lease.until > self.now {
            node.leases.insert(key, lease);
        }
    }

    /// A copy comes: whether it is held now.
    pub(super) fn take(
        &mut self,
        n: usize,
        m: usize,
        list: BTreeSet<usize>,
        moved: Option<Verdict>,
    ) -> bool {
        let name = self.entry(n, m).name;
        let verdict = self.nodes[n].rounds.verdict(name);
        let disk = &mut self.nodes[n].disk;
        if disk.gone.contains(&m) || verdict == Some(Verdict::Out(Why::Expired)) {
            return false;
        }
        self.letters[m].listed.extend(&list);
        disk.copies.entry(m).or_default().extend(list);
        let agreed =
            verdict.filter(|verdict| matches!(verdict, Verdict::Late | Verdict::Out(Why::Dead)));
        if let Some(moved) = moved.or(agreed) {
            disk.moved.insert(m, moved);
        }
        true
    }

    /// The coordinator counts who holds a message.
    pub(super) fn held(&mut self, at: usize, holder: usize, m: usize) {
        let seat = self.seat_of(holder);
        let (now, majority) = (self.now, self.hosts.1.majority());
        let letter = &mut self.letters[m];
        let Some((_, stores)) = letter.via.as_mut().filter(|(via, _)| *via == at) else { return };
        if letter.confirmed {
            return;
        }
        stores.insert(seat);
        letter.confirmed = stores.len() >= majority;
        if letter.confirmed && self.hosts.1.is_majority(stores) {
            letter.safe.get_or_insert(now);
        }
    }

    fn bury(&mut self, n: usize, m: usize) {
        let node = &mut self.nodes[n];
        node.disk.gone.insert(m);
        node.disk.copies.remove(&m);
        node.disk.moved.remove(&m);
        node.leases.retain(|_, lease| {
            lease.group.retain(|one| *one != m);
            !lease.group.is_empty()
        });
    }

    /// A producer sends, by this node.
    pub(super) fn send(&mut self, n: usize, m: usize) {
        let count = self.nodes.len();
        let pinned: BTreeSet<_> =
            self.nodes[n].disk.table.1.seats().map(|seat| seat.node.0 as usize).collect();
        let in_session = |z: &usize| *z == n || self.nodes[n].sessions.contains_key(z);
        let is_ahead = self.letters[m].stamp > self.wall(n) + world::DRIFT;
        let mut free: Vec<_> =
            (0..count).filter(|z| !pinned.contains(z) && in_session(z)).collect();
        let mut list = pinned.clone();
        for _ in pinned.iter().filter(|p| !in_session(p)) {
            list.extend(free.pop());
        }
        let enough = list.iter().filter(|z| in_session(z)).count() >= self.hosts.1.majority();
        if self.nodes[n].is_sick || is_ahead || !enough {
            return;
        }
        self.letters[m].via = Some((n, BTreeSet::new()));
        self.letters[m].listed.extend(&list);
        for z in list.clone() {
            if z == n {
                self.take(n, m, list.clone(), None);
                self.held(n, n, m);
            } else {
                self.put(n, z, Sentence::Copy(m, list.clone(), None));
            }
        }
    }

    /// Consumers delete some of what is in flight, and give some of it back.
    pub(super) fn consume(&mut self, n: usize, chance: f64) {
        for key in 0..3 {
            let Some(lease) = self.nodes[n].leases.get(&key) else { continue };
            if lease.by != n || self.now >= lease.until {
                continue;
            }
            let m = lease.group[0];
            if self.chance(chance) {
                self.bury(n, m);
                for z in self.letters[m].listed.clone() {
                    self.put(n, z, Sentence::Gone(m));
                }
            } else if self.chance(0.3) {
                self.nodes[n].leases.remove(&key);
            }
        }
    }

    /// One node makes another one's copies, moves and tombstones its own.
    pub(super) fn gossip(&mut self, from: usize, to: usize) {
        if !self.nodes[from].sessions.contains_key(&to) {
            return;
        }
        self.give_all(from, to);
        let disk = self.nodes[from].disk.clone();
        for m in self.pending(to) {
            if !self.nodes[to].disk.copies.contains_key(&m) && disk.gone.contains(&m) {
                self.put(from, to, Sentence::Gone(m));
            }
        }
        for m in self.nodes[to].disk.copies.clone().into_keys() {
            let verdict = self.nodes[from].rounds.verdict(self.entry(from, m).name);
            let agreed = verdict
                .filter(|verdict| matches!(verdict, Verdict::Late | Verdict::Out(Why::Dead)));
            let is_moved = self.nodes[to].disk.moved.contains_key(&m);
            if disk.gone.contains(&m) {
                self.put(from, to, Sentence::Gone(m));
            } else if let Some(verdict) =
                disk.moved.get(&m).copied().or(agreed).filter(|_| !is_moved)
            {
                self.put(from, to, Sentence::Moved(m, verdict));
            }
        }
    }
}
