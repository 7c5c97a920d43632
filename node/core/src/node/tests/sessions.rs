//! Runs of another node, as one node meets them, and which of them has a session.

use super::*;
use crate::event::LinkId;

const PEER: NodeId = NodeId(2);
const DISK: u128 = 9;
const NEW_DISK: u128 = 7;

impl Bench {
    /// A run of the other, on this disk, is at the other end of a connection.
    fn up_again(&mut self, link: u64, boot: u64, store: u128) -> Vec<Effect> {
        let hello = PeerHello { node: PEER, boot, store, ..self.node.hello() };
        self.handle(Event::LinkUp { link: LinkId(link), hello: Box::new(hello) })
    }

    /// The connection and the run of the session with the other.
    fn session(&self) -> Option<(u64, u64)> {
        self.node.sessions.with(PEER).map(|session| (session.link.0, session.boot))
    }

    /// The other says that it leaves.
    fn is_left(&mut self, link: u64) -> Vec<Effect> {
        self.handle(Event::Envelope { link: LinkId(link), envelope: Envelope::Leaving })
    }
}

#[test]
fn a_run_that_has_parted_is_turned_away_and_a_lower_one_on_another_disk_is_not() {
    for (boot, store, met) in [(5, DISK, false), (6, DISK, true), (3, NEW_DISK, true)] {
        let mut bench = Bench::new();
        bench.up_again(1, 5, DISK);
        bench.is_left(1);
        let effects = bench.up_again(2, boot, store);
        assert_eq!(bench.session(), met.then_some((2, boot)), "L1");
        assert_eq!(effects.contains(&Effect::CloseLink(LinkId(2))), !met);
    }
}

#[test]
fn a_lower_run_ends_the_session_of_a_higher_one_if_it_is_on_another_disk() {
    for (store, session) in [(DISK, (1, 5)), (NEW_DISK, (2, 3))] {
        let mut bench = Bench::new();
        bench.up_again(1, 5, DISK);
        bench.up_again(2, 3, store);
        assert_eq!(bench.session(), Some(session), "L1");
    }
}
