//! A walk at random through what can happen to one strict partition, and then: heal, and all
//! that was confirmed is settled.
//!
//! Three or five pinned hosts and two other nodes, three to eight messages of one to three keys.
//! The hosts are the real ones, over rows that a crash leaves. What is checked is in `world`: the
//! order of first deliveries (P5), one verdict and one value of each round, nothing left out
//! that was confirmed in time (P6), the watermark (P7), one turn at a time (P9).

use std::collections::BTreeSet;

use rand::RngExt;

use super::planted::Planted;
use super::world::{Letter, SICK, World};
use super::*;

/// How long a storm is. After it the world heals.
const STEPS: usize = 330;
/// How often all nodes come to their turn until a healed world must be at rest.
const HEALED: usize = 120;

/// What one walk was like.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) wrong: Option<String>,
    pub(super) rounds: usize,
    pub(super) confirmed: usize,
}

/// What is drawn once for a walk.
struct Storm {
    wild: f64,
    lazy: f64,
    keen: Vec<f64>,
    /// How often a host may still be swapped, and a disk lost.
    swaps: u32,
    wipes: u32,
    expires: bool,
}

/// What whoever runs walks by hand says: how many, from which one on, with what broken.
#[expect(clippy::disallowed_methods, reason = "the walk itself depends on its seed alone")]
pub(super) fn said(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(super) fn walk(seed: u64, planted: Planted) -> Walked {
    let mut world = World::new(seed, planted);
    let mut storm = world.draw();
    for _ in 0..STEPS {
        world.step(&mut storm);
        if world.wrong.is_some() {
            break;
        }
    }
    if world.wrong.is_none() {
        world.heal(&mut storm);
    }
    let confirmed = world.letters.iter().filter(|letter| letter.confirmed).count();
    Walked { wrong: world.wrong, rounds: world.truth.len(), confirmed }
}

impl World {
    pub(super) fn chance(&mut self, chance: f64) -> bool {
        self.rng.random_bool(chance.min(1.0))
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.random_range(0..of.len())]
    }

    pub(super) fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cuts.contains(&(a.min(b), a.max(b)))
    }

    fn are_up(&self, a: usize, b: usize) -> bool {
        self.nodes[a].is_up && self.nodes[b].is_up && !self.is_cut(a, b)
    }

    fn draw(&mut self) -> Storm {
        let keys = self.rng.random_range(1..=3);
        let count = self.rng.random_range(3..=8);
        let expires = self.chance(0.6);
        let mut at: Vec<i64> = (0..count).map(|_| self.rng.random_range(10..220)).collect();
        at.sort_unstable();
        for time in at {
            let longest = if self.chance(0.55) { 12 } else { 120 };
            let when = time + self.rng.random_range(0..=longest);
            let life = if expires && self.chance(0.5) { 20..=200 } else { 100_000..=100_000 };
            let letter = Letter {
                key: self.rng.random_range(0..keys),
                stamp: time + self.rng.random_range(-5..=5),
                when,
                expires: when + self.rng.random_range(life),
                via: None,
                listed: BTreeSet::new(),
                confirmed: false,
                safe: None,
                first: false,
            };
            self.letters.push(letter);
        }
        if self.chance(0.6) {
            let late = self.letters[0].stamp + self.rng.random_range(60..=220);
            self.letters[0].when = late;
            self.letters[0].expires = 100_000;
        }
        let brittle = self.one_of(&[0.0, 0.002, 0.01, 0.05]);
        self.brittle = self.planted.brittle(brittle);
        let keen = (0..self.nodes.len()).map(|_| self.one_of(&[0.4, 0.4, 0.01])).collect();
        Storm {
            wild: self.one_of(&[0.15, 0.4, 1.0]),
            lazy: self.one_of(&[0.9, 0.9, 0.12]),
            keen,
            swaps: 2,
            wipes: 2,
            expires,
        }
    }

    fn step(&mut self, storm: &mut Storm) {
        self.now += 1;
        let count = self.nodes.len();
        let n = self.rng.random_range(0..count);
        let is_up = self.nodes[n].is_up;
        match self.rng.random_range(0..100) {
            0..72 => (0..4).for_each(|_| self.hear_one()),
            72..76 if is_up => {
                let to = self.rng.random_range(0..count);
                self.gossip(n, to);
            }
            76..80 if is_up => self.trim(n),
            80..82 if is_up => self.tell_leases(n),
            82..87 if is_up => self.consume(n, 0.5),
            87.. if self.rng.random_bool(storm.wild) => self.misfortune(n, storm),
            _ => {}
        }
        for n in 0..count {
            if self.nodes[n].is_up && self.rng.random_bool(0.3) {
                self.tick(n, storm);
                if self.rng.random_bool(storm.lazy) {
                    self.hand_out(n);
                }
            }
        }
        for m in 0..self.letters.len() {
            let letter = &self.letters[m];
            let is_due = self.now >= letter.when && !letter.confirmed;
            let again = letter.via.is_some();
            if is_due && (!again || self.rng.random_bool(0.01)) {
                let via = self.rng.random_range(0..count);
                if self.nodes[via].is_up {
                    self.send(via, m);
                }
            }
        }
        self.meet(storm);
    }

    fn hear_one(&mut self) {
        let ways: Vec<_> = self.under_way.keys().copied().collect();
        if !ways.is_empty() {
            let (from, to) = self.one_of(&ways);
            self.hear(from, to);
        }
    }

    fn tick(&mut self, n: usize, storm: &mut Storm) {
        let wishes = self.wishes(n, storm);
        self.call(n, |rounds, around| rounds.tick(around, &wishes));
    }

    fn wishes(&mut self, n: usize, storm: &mut Storm) -> Wishes {
        let mut out = Vec::new();
        for m in self.pending(n) {
            let node = &self.nodes[n];
            let leases = &node.leases;
            let flies = leases.values().any(|l| l.group.contains(&m) && self.now < l.until);
            let is_here = node.disk.copies.contains_key(&m);
            let is_dead = node.disk.count.get(&m).is_some_and(|count| *count >= 2);
            let entry = self.entry(n, m);
            if self.now >= self.letters[m].expires && is_here && !flies {
                out.push((entry, Why::Expired));
            } else if is_dead && !flies {
                out.push((entry, Why::Dead));
            } else if !is_here && self.is_lost(n, m) {
                out.push((entry, Why::Lost));
            }
        }
        let swap = self.swap(n, storm);
        Wishes { out, swap, advance: self.rng.random_bool(0.3) }
    }

    /// Whether every listed host can be asked, itself or through another one, and has none.
    fn is_lost(&self, n: usize, m: usize) -> bool {
        let both = |a: usize, b: usize| {
            let of = |x: usize, y: usize| self.nodes[x].sessions.get(&y).map(|session| session.id);
            a == b || (of(a, b).is_some() && of(a, b) == of(b, a))
        };
        let reach = |z| (0..self.nodes.len()).any(|w| both(n, w) && both(w, z));
        self.letters[m].listed.iter().all(|z| {
            let disk = &self.nodes[*z].disk;
            reach(*z) && !disk.copies.contains_key(&m) && !disk.gone.contains(&m)
        })
    }

    fn swap(&mut self, n: usize, storm: &mut Storm) -> Option<Swap> {
        if !self.serves(n) {
            return None;
        }
        let pinned = self.nodes[n].rounds.hosts().pinned.clone();
        let is_void = |seat: &Seat| self.seat_of(seat.node.0 as usize) != *seat;
        let void: BTreeSet<_> = pinned.seats().filter(is_void).collect();
        let is_pinned = |z: &usize| pinned.seats().any(|seat| seat.node.0 as usize == *z);
        let sessions = &self.nodes[n].sessions;
        let mut come: Vec<_> = sessions.keys().copied().filter(|z| !is_pinned(z)).collect();
        let gone = match void.first() {
            Some(gone) => {
                let node = gone.node.0 as usize;
                come.extend(Some(node).filter(|node| sessions.contains_key(node)));
                *gone
            }
            None if storm.swaps > 0 && self.rng.random_bool(0.02) => {
                storm.swaps -= 1;
                self.one_of(&pinned.seats().collect::<Vec<_>>())
            }
            None => return None,
        };
        if come.is_empty() {
            return None;
        }
        let new = self.one_of(&come);
        Some(Swap { gone, new: self.seat_of(new), void })
    }

    fn trim(&mut self, n: usize) {
        let is_over = |m: usize| {
            self.letters[m].listed.iter().all(|z| {
                let disk = &self.nodes[*z].disk;
                disk.gone.contains(&m) || disk.moved.contains_key(&m)
            })
        };
        let over: Vec<_> = (0..self.letters.len()).map(is_over).collect();
        self.call(n, |rounds, _| rounds.trim(|entry| over[Self::number(entry)]));
    }

    fn misfortune(&mut self, n: usize, storm: &mut Storm) {
        let count = self.nodes.len();
        match self.rng.random_range(0..90) {
            0..12 if self.nodes[n].is_up && self.up() > 2 => self.crash(n),
            12..35 if !self.nodes[n].is_up => self.reopen(n),
            35..45 => {
                let other = (n + self.rng.random_range(1..count)) % count;
                self.cuts.insert((n.min(other), n.max(other)));
            }
            45..50 => self.isolate(n),
            50..62 => {
                if self.rng.random_bool(0.5) {
                    self.cuts.clear();
                } else {
                    self.cuts.pop_first();
                }
            }
            62..66 => {
                let is_well = |node: &world::Node| node.offset.abs() < 10;
                let all_well = self.nodes.iter().all(is_well);
                self.nodes[n].offset = if all_well {
                    self.one_of(&[SICK, -SICK])
                } else {
                    self.rng.random_range(-5..=5)
                };
            }
            66..75 => self.nodes[n].is_sick = self.nodes[n].offset.abs() > 9,
            75..78 => {
                let disk = self.nodes[n].disk.clone();
                self.nodes[n].saved.get_or_insert(disk);
            }
            78..82 if storm.wipes > 0 && self.may_wipe(n) => {
                storm.wipes -= 1;
                self.wipe(n);
            }
            82..86 if storm.expires => {
                let m = self.rng.random_range(0..self.letters.len());
                self.letters[m].expires = self.now;
            }
            86..90 if self.nodes[n].rounds.ballot().is_some() => {
                let pending = self.pending(n);
                if let Some(m) = pending.into_iter().find(|m| !self.letters[*m].first) {
                    self.isolate(n);
                    storm.keen[n] = 0.005;
                    self.letters[m].expires = self.now + self.rng.random_range(0..=60);
                }
            }
            _ => {}
        }
    }

    fn up(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_up).count()
    }

    fn isolate(&mut self, n: usize) {
        let others = (0..self.nodes.len()).filter(|z| *z != n);
        self.cuts.extend(others.map(|z| (n.min(z), n.max(z))));
    }

    fn reopen(&mut self, n: usize) {
        self.reset(n);
        self.nodes[n].is_up = true;
    }

    /// Whether losing this disk loses no last copy, and no second seat while one is vacant.
    fn may_wipe(&self, n: usize) -> bool {
        let changes = |node: &world::Node| {
            let accepted = node.disk.rows.acceptor.as_ref().and_then(|a| a.accepted.as_ref());
            accepted.is_some_and(|accepted| accepted.round.change.is_some())
        };
        let is_whole = |seat: Seat| {
            let p = seat.node.0 as usize;
            let rounds = &self.nodes[p].rounds;
            seat == self.seat_of(p) && rounds.hosts().changed == self.hosts.0 && rounds.is_told()
        };
        let is_spare = |m: usize| {
            let letter = &self.letters[m];
            let others = self.nodes.iter().enumerate().filter(|(z, _)| *z != n);
            let elsewhere = others.into_iter().any(|(_, node)| node.disk.copies.contains_key(&m));
            let expired = self.verdicts.get(&m) == Some(&Verdict::Out(Why::Expired));
            !letter.confirmed || letter.first || elsewhere || expired
        };
        !self.nodes.iter().any(changes)
            && self.hosts.1.seats().all(is_whole)
            && (0..self.letters.len()).all(is_spare)
    }

    /// A disk is lost, or put back to an earlier state: its node is a new host.
    fn wipe(&mut self, n: usize) {
        self.crash(n);
        let saved = self.nodes[n].saved.take();
        let put_back = saved.filter(|_| self.rng.random_bool(0.6));
        let empty = world::Disk { table: (0, self.first_hosts.clone()), ..Default::default() };
        self.nodes[n].disk = put_back.unwrap_or(empty);
        if self.planted != Planted::PromiseForgotten {
            self.nodes[n].store += 1;
        }
        self.reset(n);
    }

    fn meet(&mut self, storm: &Storm) {
        let count = self.nodes.len();
        for _ in 0..2 {
            let a = self.rng.random_range(0..count);
            let b = (a + self.rng.random_range(1..count)) % count;
            let is_joined = self.is_joined(a, b);
            if self.are_up(a, b) {
                if !is_joined && self.rng.random_bool(0.5) {
                    self.start(a, b);
                } else if is_joined && self.rng.random_bool(0.002) {
                    self.end(a, b);
                }
            } else if self.nodes[a].sessions.contains_key(&b) && self.rng.random_bool(storm.keen[a])
            {
                self.end(a, b);
            }
        }
    }

    fn is_joined(&self, a: usize, b: usize) -> bool {
        let of = |x: usize, y: usize| self.nodes[x].sessions.get(&y).map(|session| session.id);
        of(a, b).is_some() && of(a, b) == of(b, a)
    }

    fn heal(&mut self, storm: &mut Storm) {
        self.brittle = 0.0;
        self.cuts.clear();
        let seats: Vec<_> = self.hosts.1.seats().collect();
        let all_there = seats.iter().all(|seat| {
            let n = seat.node.0 as usize;
            self.seat_of(n) == *seat && self.nodes[n].rounds.hosts().pinned == self.hosts.1
        });
        if all_there && self.rng.random_bool(0.3) {
            let (a, b) = (seats[0].node.0 as usize, seats[1].node.0 as usize);
            self.cuts.insert((a.min(b), a.max(b)));
        }
        for n in 0..self.nodes.len() {
            self.nodes[n].offset = self.rng.random_range(-5..=5);
            self.nodes[n].is_sick = false;
            if !self.nodes[n].is_up {
                self.reopen(n);
            }
        }
        for _ in 0..HEALED {
            self.now += 5;
            self.join_all();
            for _ in 0..400 {
                if self.under_way.is_empty() || self.wrong.is_some() {
                    break;
                }
                self.hear_one();
            }
            for n in 0..self.nodes.len() {
                self.tick(n, storm);
                self.hand_out(n);
                self.consume(n, 0.8);
            }
            if self.wrong.is_some() || self.is_at_rest() {
                break;
            }
        }
        if self.wrong.is_none() && !self.is_at_rest() {
            self.fail(format!("not at rest: {:?}{}", self.verdicts, self.picture()));
        }
        self.check_kept();
    }

    fn join_all(&mut self) {
        for a in 0..self.nodes.len() {
            for b in 0..a {
                if !self.are_up(a, b) {
                    for (x, y) in [(a, b), (b, a)] {
                        if self.nodes[x].sessions.contains_key(&y) {
                            self.end(x, y);
                        }
                    }
                } else if !self.is_joined(a, b) {
                    self.start(a, b);
                } else {
                    self.gossip(a, b);
                    self.gossip(b, a);
                }
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        let last = self.truth.keys().next_back().copied().unwrap_or(0);
        let settled = (0..self.letters.len()).filter(|m| self.letters[*m].confirmed).all(|m| {
            let lies = |node: &world::Node| {
                node.disk.copies.contains_key(&m) && !node.disk.moved.contains_key(&m)
            };
            match self.verdicts.get(&m) {
                None => false,
                Some(Verdict::Released) => {
                    let copied = |node: &world::Node| node.disk.copies.contains_key(&m);
                    self.letters[m].first && !self.nodes.iter().any(copied)
                }
                Some(Verdict::Late | Verdict::Out(Why::Dead)) => !self.nodes.iter().any(lies),
                Some(Verdict::Out(_)) => true,
            }
        });
        settled
            && self.hosts.1.seats().all(|seat| {
                let p = seat.node.0 as usize;
                self.seat_of(p) == seat && self.nodes[p].rounds.last() == last
            })
    }

    /// What was confirmed is not lost, and what moved is where it moved to.
    fn check_kept(&mut self) {
        for m in 0..self.letters.len() {
            let kept = self.nodes.iter().any(|node| {
                let disk = &node.disk;
                disk.gone.contains(&m)
                    || (disk.copies.contains_key(&m) && disk.moved.contains_key(&m))
            });
            let is_lost = match self.verdicts.get(&m) {
                Some(Verdict::Out(Why::Lost)) => true,
                Some(Verdict::Late | Verdict::Out(Why::Dead)) => !kept,
                None | Some(Verdict::Released | Verdict::Out(_)) => false,
            };
            if self.letters[m].confirmed && is_lost {
                self.fail(format!("P6: {m} is lost: {:?}", self.verdicts.get(&m)));
            }
        }
    }
}

#[test]
fn no_walk_breaks_a_promise() {
    let from = said("GAGGLE_WALKS_FROM").and_then(|n| n.parse().ok()).unwrap_or(0);
    let count = said("GAGGLE_WALKS").and_then(|n| n.parse().ok()).unwrap_or(300);
    let (mut rounds, mut confirmed) = (0, 0);
    let mut wrong = Vec::new();
    for seed in from..from + count {
        let walked = walk(seed, Planted::None);
        wrong.extend(walked.wrong.map(|what| format!("seed {seed}: {what}")));
        rounds += walked.rounds;
        confirmed += walked.confirmed;
    }
    println!("{count} walks, {rounds} rounds, {confirmed} confirmed, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(9)].join("\n"));
    assert!(rounds as u64 > count && confirmed as u64 > count, "the walks do something");
}
