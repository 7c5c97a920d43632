//! Deeds of a plan, done to a world.
//!
//! What this file does not do: how each is done is in the file of what it is done to.

use gaggle_wire::NodeId;

use crate::options::place;
use crate::plan::Deed;
use crate::world::World;

impl World {
    /// Does a deed that is done to nodes or to the network.
    pub(crate) fn deed(&mut self, deed: &Deed) {
        let at = |node: u64| place(NodeId(node));
        match *deed {
            Deed::Crash { node } => {
                if self.is_up(at(node)) {
                    self.crash(at(node));
                }
            }
            Deed::Start { node } => self.start(at(node)),
            Deed::KillAtWrite { node, writes } => self.kill_at_write(at(node), writes),
            Deed::Stop { node } => self.drain(at(node)),
            Deed::Wipe { node } => {
                if self.is_up(at(node)) {
                    self.crash(at(node));
                }
                self.wipe(at(node));
            }
            Deed::KeepDisk { node } => self.keep_disk(at(node)),
            Deed::PutBack { node } => self.put_back(at(node)),
            Deed::Rot { node, of_thousand } => self.rot(at(node), of_thousand),
            Deed::LoseRows { node, of_thousand, loss } => {
                self.lose_rows(at(node), (of_thousand, loss));
            }
            Deed::FailCommit { node } => self.fail_commit(at(node)),
            Deed::FillDisk { node } => self.fill_disk(at(node)),
            Deed::FreeDisk { node } => self.free_disk(at(node)),
            Deed::SlowDisk { node, ms } => self.slow_disk(at(node), ms * MS),
            Deed::QuickDisk { node } => self.quick_disk(at(node)),
            Deed::Pause { node, ms } => self.pause(at(node), ms * MS),
            Deed::Suspend { node, ms, stands } => self.suspend(at(node), ms * MS, stands),
            Deed::SlowDown { node, each_ms, ms } => {
                self.slow_down(at(node), (each_ms * MS, ms * MS));
            }
            Deed::StepClock { node, ms } => {
                self.step_clock(at(node), ms.saturating_mul(MS.cast_signed()));
            }
            Deed::StopClock { node } => self.stop_clock(at(node)),
            Deed::RightClock { node } => self.right_clock(at(node)),
            Deed::CutOneWay { from, to } => self.cut_one_way(at(from), at(to)),
            Deed::Cut { a, b } => self.cut(at(a), at(b)),
            Deed::Isolate { node } => self.isolate(at(node)),
            Deed::Clog { from, to } => self.clog(at(from), at(to)),
            Deed::BreakLink { a, b } => self.break_link(at(a), at(b)),
            Deed::Heal { a, b } => {
                self.heal(at(a), at(b));
                self.heal(at(b), at(a));
            }
            Deed::HealAll => self.heal_all(),
            Deed::ClientDies { .. }
            | Deed::ClientPauses { .. }
            | Deed::CutClient { .. }
            | Deed::BreakClient { .. }
            | Deed::HealClient { .. }
            | Deed::Guest { .. } => unreachable!("that is done to or by a client"),
        }
    }
}

const MS: u64 = 1_000_000;
