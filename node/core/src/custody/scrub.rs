//! Scrub: where the check of all rows stands that goes on in the background.
//!
//! It reads everything in key order, at a low rate, contents too; what is held and has no row
//! that is whole was lost. A pass begins a day after the last one began, or at once when that
//! took longer. What this file does not do: it reads nothing; what was seen is in [`super::known`].

use gaggle_wire::Stamp;

use super::pace::Pace;
use crate::now::Mono;
use crate::session::PartitionId;

/// Where the scrub stands.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    pub(crate) stand: Stand,
    pub(crate) pace: Pace,
    /// When the present pass, or the last one, began.
    pub(crate) began: Mono,
    /// How often messages had been stored when the page was asked for that is being read.
    pub(crate) stored: u64,
}

/// What the scrub does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It begins a pass.
    #[default]
    Rest,
    /// It begins with this partition, or the first one behind it.
    Before(PartitionId),
    /// It goes on behind this row.
    Behind(PartitionId, Stamp),
    /// A page is being read.
    Reading,
}
