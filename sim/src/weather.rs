//! The weather: whether anything fails, since when nothing does, and between whom.
//!
//! It is *fair* until something fails, and again once all nodes that should be up have been up,
//! awake, ready and connected with each other for a while. A node that joins, drains or stops does
//! not spoil it: that is no fault. What is promised "in a run without faults" is judged whenever
//! it is fair, and so in the pauses of a storm too.
//!
//! What this file does not do: it does not look at nodes; the world says when all is well again.

use std::collections::BTreeMap;

/// Whether anything fails.
#[derive(Clone, Debug)]
pub struct Weather {
    fair_since: Option<u64>,
    /// Since when all has looked well.
    brightens: Option<u64>,
    /// When something last happened to a node, or between two.
    troubled: BTreeMap<(usize, usize), u64>,
    /// When something last happened to all.
    all_troubled: u64,
}

impl Default for Weather {
    /// Nothing has failed yet.
    fn default() -> Self {
        Self { fair_since: Some(0), brightens: None, troubled: BTreeMap::new(), all_troubled: 0 }
    }
}

impl Weather {
    /// Since when it is fair, if it is.
    #[must_use]
    pub fn fair_since(&self) -> Option<u64> {
        self.fair_since
    }

    /// Something fails, or may.
    pub fn disturb(&mut self) {
        (self.fair_since, self.brightens) = (None, None);
    }

    /// Whether all looks well, as the world sees it while it is not fair.
    pub(crate) fn looks(&mut self, now: u64, well: bool) {
        if self.fair_since.is_some() {
            return;
        }
        self.brightens = if well { self.brightens.or(Some(now)) } else { None };
        self.fair_since = self.brightens.filter(|since| since + SETTLING <= now).map(|_| now);
    }

    /// Something happened to a node, or to the connection of two.
    pub(crate) fn trouble(&mut self, now: u64, a: usize, b: usize) {
        self.troubled.insert((a.min(b), a.max(b)), now);
    }

    /// Something happened to all nodes, or to the whole network.
    pub(crate) fn trouble_all(&mut self, now: u64) {
        self.all_troubled = now;
    }

    /// Since when nothing has happened to any node, and between any two.
    #[must_use]
    pub fn all_quiet_since(&self) -> u64 {
        self.troubled.values().max().copied().unwrap_or(0)
    }

    /// Since when nothing has happened to these two and between them.
    #[must_use]
    pub fn quiet_since(&self, a: usize, b: usize) -> u64 {
        let last = |pair| self.troubled.get(&pair).copied().unwrap_or(0);
        let own = last((a, a)).max(last((b, b))).max(last((a.min(b), a.max(b))));
        own.max(self.all_troubled)
    }
}

/// How long all has looked well before it is fair: who was suspected before it did is down and
/// back by then, and what was on its way has come.
const SETTLING: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fair_once_all_has_looked_well_for_a_while() {
        let mut weather = Weather::default();
        assert_eq!(weather.fair_since(), Some(0));
        weather.disturb();
        weather.looks(10, true);
        assert_eq!(weather.fair_since(), None);
        weather.looks(20, false);
        weather.looks(30, true);
        weather.looks(10 + SETTLING, true);
        assert_eq!(weather.fair_since(), None, "it began anew");
        weather.looks(30 + SETTLING, true);
        assert_eq!(weather.fair_since(), Some(30 + SETTLING));
        weather.disturb();
        assert_eq!(weather.fair_since(), None);
    }

    #[test]
    fn two_nodes_are_quiet_since_the_last_thing_that_happened_to_either() {
        let mut weather = Weather::default();
        weather.trouble(5, 1, 0);
        weather.trouble(7, 2, 2);
        assert_eq!(weather.quiet_since(0, 1), 5);
        assert_eq!(weather.quiet_since(0, 2), 7);
        assert_eq!(weather.quiet_since(3, 0), 0);
        assert_eq!(weather.all_quiet_since(), 7);
        weather.trouble_all(6);
        assert_eq!((weather.quiet_since(3, 0), weather.quiet_since(0, 2)), (6, 7));
    }
}
