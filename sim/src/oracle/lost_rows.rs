//! Copies of single messages that a disk loses.
//!
//! Whose content rots has its row, and says so. Whose row is lost, be it that it vanished or that
//! nothing in it can be read, is found to have lost it as long as its node runs; a node that starts
//! anew on such a disk cannot know that it ever had it, and says in good faith that it never had.
//! If so say all others, a copy that is left cannot be told from one that was never confirmed, or
//! was deleted everywhere else, and goes (P4). So what lies at one node alone after that is lost
//! like what nobody has.
//!
//! What this file does not do: whole disks, which their nodes are known by.

use gaggle_core::ledger::MessageKey;

use super::{FullName, Oracle};
use crate::judge::Look;

impl Oracle {
    /// Some messages on a disk are damaged: what nobody else has is excused.
    pub(crate) fn rots(&mut self, (now, at): (u64, usize), keys: &[MessageKey], look: Look<'_>) {
        self.disk_lost = Some(now);
        for name in keys.iter().filter_map(|key| self.rows.get(key)) {
            if let Some(fate) = self.fates.get_mut(name) {
                fate.lost_copy(at, &look(&fate.subject(*name)));
                fate.copy_lost_at.insert(at, now);
            }
        }
    }

    /// Rows of some messages on a disk are lost.
    pub(crate) fn rows_lost(
        &mut self,
        (now, at): (u64, usize),
        keys: &[MessageKey],
        look: Look<'_>,
    ) {
        self.rots((now, at), keys, look);
        for name in keys.iter().filter_map(|key| self.rows.get(key)) {
            if let Some(fate) = self.fates.get_mut(name) {
                fate.row_lost_by.insert(at);
            }
        }
    }

    /// A node removes its copy.
    pub(super) fn removed(&mut self, at: usize, name: &FullName, look: Look<'_>) {
        if let Some(fate) = self.fates.get_mut(name) {
            fate.excused |= fate.is_denied(at, &look(&fate.subject(*name)));
        }
    }
}
