//! Custody: what this node holds, knows to be gone, and must still see to.
//!
//! Small rooms share it. [`known`] keeps, per partition and process, which messages are
//! held, gone, and not yet known to be at enough hosts: ranges, however many messages there are.
//! [`sending`] counts the hosts that have the messages of a send until it may be confirmed.
//! [`burial`] keeps tombstones until everybody who must know them does. [`replacing`] finds one
//! more holder for what a host held that stays away, at the [`pace`] that repair is allowed;
//! [`digest`] is what two holders compare, [`part`] how much is said of it in one piece, [`scrub`]
//! where the check of all rows stands.
//!
//! Invariant: absence is never taken for deletion: a message goes by a tombstone, by the purge or
//! the end of its queue, or because all its hosts say that it was never confirmed. What this room
//! does not do: it does not hand out; that is the queue's.

pub(crate) mod burial;
pub(crate) mod digest;
pub(crate) mod known;
pub(crate) mod pace;
pub(crate) mod part;
pub(crate) mod replacing;
pub(crate) mod scrub;
pub(crate) mod sending;
