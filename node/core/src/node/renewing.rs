//! A disk that was put back to an earlier state, and the new host that it makes.
//!
//! Such a disk is a danger to all. It has messages that were deleted since, and takes them for
//! confirmed; it lacks what others count on it for; it would name its deliveries as it named others
//! before. Its node cannot know. Whoever has met the disk later than its state is knows, and says
//! so instead of beginning a session. The node then becomes a new host under its old name: it takes
//! another name for its disk and a number for its run as on an empty one, and nothing that it holds
//! counts as confirmed any more, until another host is known to have it. Then it is opened anew,
//! and the others treat it as one that has lost its disk.
//!
//! What only this node should have is left as it was: nobody else could vouch for it. What this
//! file does not do: by what such a disk is known is in `session/disks.rs`.

use gaggle_wire::NodeId;
use rand::RngExt;

use super::Node;
use crate::effect::{Effect, Effects};
use crate::envelope::Envelope;
use crate::event::LinkId;
use crate::ledger::key::{disks, meta};
use crate::ledger::{Key, Write, record};

impl Node {
    /// Makes this node a new host under its old name. Nothing else is to be asked of it then: it is
    /// to be opened anew once the effects are done.
    pub fn renew(&mut self, effects: &mut Effects) {
        self.run.renewed = true;
        let store: u128 = self.run.rng.random();
        let key = Key::Meta(meta::RENAMED).encode();
        effects.write(Write::Put { key, value: record::encode(&store) });
        effects.write(Write::Delete { key: Key::Meta(meta::BOOT).encode() });
        // Whom it has met since then, and with which disk, it does not know either.
        let (from, to) = disks();
        effects.write(Write::DeleteRange { from, to });
        let ids: Vec<_> = self.partitions.keys().copied().collect();
        for id in ids {
            let partition = self.partitions.get_mut(&id).expect("it was listed");
            let alone = partition.lists.held_alone(self.config.node);
            partition.known.doubt(&alone);
            self.write_settled(id, effects);
        }
        effects.push(Effect::Renewed);
    }

    /// Another node tells how far its disk has come. One that was put back with all that ran on it,
    /// as a virtual machine can be, is the same process as before, and gives itself away here.
    pub(super) fn commits_told(
        &mut self,
        peer: NodeId,
        envelope: &Envelope,
        effects: &mut Effects,
    ) {
        let Some(told) = envelope.commits() else { return };
        let went_back = !self.sessions.disks.told(peer, told);
        if let (true, Envelope::Clock { .. }) = (went_back, envelope)
            && let Some(session) = self.sessions.with(peer)
        {
            self.disk_put_back((peer, session.link), effects);
        }
    }

    /// The disk of another node was put back to an earlier state: it is told so at once.
    pub(super) fn disk_put_back(&mut self, (peer, link): (NodeId, LinkId), effects: &mut Effects) {
        self.count("disks_put_back");
        self.forget_disk(peer);
        effects.send_now(link, Envelope::PutBack);
    }

    /// Another node has nothing of what it was known to have.
    pub(super) fn forget_disk(&mut self, peer: NodeId) {
        self.burials.forget_node(peer);
        self.sends.under_way.values_mut().for_each(|sending| sending.forget(peer));
    }

    /// Writes down what is known of the disks of others.
    pub(super) fn write_disks(&mut self, effects: &mut Effects) {
        for (node, disk) in self.sessions.disks.take_unwritten() {
            let key = Key::Disk(node).encode();
            effects.write(Write::Put { key, value: record::encode(&disk) });
        }
    }
}
