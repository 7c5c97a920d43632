//! What the demo sent and what it got back, body by body.
//!
//! Bodies are compared and not only counted, and a body may be sent several times (empty lines
//! are), so the ledger is a multiset. Lost is what was confirmed and never came; a duplicate is
//! what came more often than it was sent; what came and was never sent is invented, and worse
//! than either.

use std::collections::HashMap;

use bytes::Bytes;

/// The account of one run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    bodies: HashMap<Bytes, Account>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    sent: u64,
    confirmed: u64,
    received: u64,
}

/// The sum of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Bodies that were sent, each as often as it was.
    pub(crate) sent: u64,
    /// Those that were confirmed.
    pub(crate) confirmed: u64,
    /// Those that came back, duplicates not counted.
    pub(crate) received: u64,
    /// Those that were confirmed and did not come.
    pub(crate) lost: u64,
    /// Deliveries beyond what was sent.
    pub(crate) duplicates: u64,
    /// Deliveries of bodies that were never sent.
    pub(crate) invented: u64,
}

impl Sum {
    /// Whether nothing confirmed is lost, and nothing came that was never sent.
    pub(crate) fn is_kept(&self) -> bool {
        self.lost == 0 && self.invented == 0
    }
}

impl Ledger {
    /// A body is about to be sent.
    pub(crate) fn sent(&mut self, body: &Bytes) {
        self.bodies.entry(body.clone()).or_default().sent += 1;
    }

    /// A send of this body was confirmed.
    pub(crate) fn confirmed(&mut self, body: &Bytes) {
        self.bodies.entry(body.clone()).or_default().confirmed += 1;
    }

    /// A delivery with this body came.
    pub(crate) fn received(&mut self, body: &Bytes) {
        self.bodies.entry(body.clone()).or_default().received += 1;
    }

    /// The sum of all.
    pub(crate) fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        for account in self.bodies.values() {
            sum.sent += account.sent;
            sum.confirmed += account.confirmed;
            sum.received += account.received.min(account.sent);
            sum.lost += account.confirmed.saturating_sub(account.received);
            match account.sent {
                0 => sum.invented += account.received,
                sent => sum.duplicates += account.received.saturating_sub(sent),
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(sent: &[&'static str], confirmed: &[&'static str], got: &[&'static str]) -> Sum {
        let mut ledger = Ledger::default();
        sent.iter().for_each(|body| ledger.sent(&Bytes::from_static(body.as_bytes())));
        confirmed.iter().for_each(|body| ledger.confirmed(&Bytes::from_static(body.as_bytes())));
        got.iter().for_each(|body| ledger.received(&Bytes::from_static(body.as_bytes())));
        ledger.sum()
    }

    #[test]
    fn equal_bodies_are_counted_each_as_often_as_they_were_sent() {
        let sum = ledger(&["", "", "a"], &["", "", "a"], &["", "a", ""]);
        let wanted = Sum { sent: 3, confirmed: 3, received: 3, ..Sum::default() };
        assert_eq!(sum, wanted);
    }

    #[test]
    fn a_lost_one_is_not_made_up_for_by_a_duplicate_of_another() {
        let sum = ledger(&["a", "b"], &["a", "b"], &["a", "a"]);
        assert_eq!((sum.received, sum.lost, sum.duplicates), (1, 1, 1));
    }

    #[test]
    fn what_was_not_confirmed_may_come_or_not() {
        assert_eq!(ledger(&["a"], &[], &[]).lost, 0);
        assert_eq!(ledger(&["a"], &[], &["a"]).received, 1);
    }

    #[test]
    fn what_nobody_sent_is_invented() {
        assert_eq!(ledger(&[], &[], &["x"]).invented, 1);
    }

    #[test]
    fn only_what_is_lost_or_invented_is_a_failure() {
        assert!(ledger(&["a", "b"], &["a"], &["a", "a"]).is_kept());
        assert!(!ledger(&["a", "b"], &["a", "b"], &["a", "a"]).is_kept());
        assert!(!ledger(&["a"], &["a"], &["a", "x"]).is_kept());
    }
}
