//! Rounds: the agreed release of a strict partition.
//!
//! A strict queue promises an order, over all hosts, whatever is cut or crashes. One host alone
//! cannot promise it: when it is away, nobody knows what it handed out last. So the hosts of a
//! partition agree, step by step, on what is released. Each step is a [`Round`]: up to which
//! stamp, which messages in which order, which came too late, which are taken out. Only what a
//! chosen round releases is handed out. Sends do not wait for any of this; only deliveries do.
//!
//! ```text
//!    sequencer                                   the other pinned hosts
//!        |  prepare (ballot) ---------------------->  promise, or refuse
//!        |  <------------- promise, what was accepted |
//!        |  ask (up to) --------------------------->  | durable: the promise
//!        |  <---------------- report: all that I hold | grants its turn
//!        |  build: judge each by the log              |
//!        |  propose (round n) --------------------->  | has what it releases? else fetch
//!        |  <-------------------- accept (round n)    | durable: the round
//!        |  chosen: durable, told as learn -------->  | durable: chosen
//!        |  hands out, as long as its turn lasts      |
//! ```
//!
//! It is one Paxos instance per round, and round n + 1 begins when n is chosen. Which host does it
//! is nothing that is agreed on: the custodian among the [`Pinned`] hosts prepares when it finds
//! that whoever had the highest [`Ballot`] is away, has yielded, or is clock-sick. Two that do it
//! at once disturb each other and break nothing.
//!
//! What each rule gives:
//!
//! - One value per round, for ever (P6): nothing is answered below a promised ballot (`acceptor`),
//!   a majority decides (`pinned`), what was found goes first and unchanged, of several the one of
//!   the highest ballot (`sequencer`), and what is said is durable before.
//! - One verdict per entry (P6): a round is admitted only if what it settles is open (`log`).
//! - Nothing that a majority held in time is left out (P6): a round is built of the reports of a
//!   majority (`building`), and a new host reports once it was told what its predecessors held.
//! - The watermark never goes back (P7): the sequencer asks for none below the last, and no host
//!   accepts one. None is far ahead (P14): each host holds it against its own wall at its report.
//! - Order within a key (P5): what is below something newer that was released is late; nothing that
//!   was found is handed out, or passed over, before it is chosen; for what is missing its key
//!   waits.
//! - One host hands out at a time (P9): the turn that a majority grants (`turn`). It ends early
//!   only when its host has said that it stopped under that ballot.
//!
//! How the files go together: [`Rounds`] (`host`) is one host of one partition, and holds the rest;
//! it answers (`answering`), proposes (`proposing`) and learns (`learning`). It is called, and
//! returns [`Act`]s; of one call the rows are durable before anything else is done.
//!
//! What this room does not do. It has no messages, leases, sessions, clocks or rows of its own,
//! and nothing in the node calls it yet. It does not hand out: a group of a key at a time, what is
//! missing waited for, and nothing that is withheld, is for its caller to keep. It does not find
//! out that a message is lost, has expired, or had its chances: that is wished for. And of strict
//! queues it does not have yet: early release by what producers promise, delayed messages that
//! take their place when they are due, redrive, the reseat of a partition that lost its majority,
//! keys that are held behind a dead letter, fencing by ballot, the choice of who is pinned. The
//! verdicts of rounds that are not trimmed are kept one by one in memory; as ranges they are to be
//! before a backlog may be long (P12).

mod acceptor;
mod answering;
mod ballot;
mod building;
mod host;
mod learning;
mod log;
mod pinned;
mod proposing;
mod round;
mod rows;
mod sequencer;
mod turn;
mod word;

pub use acceptor::{Accepted, AcceptorRecord};
pub use ballot::Ballot;
pub use building::{Here, Swap, Wishes};
pub use host::{Around, Opened, Peer, Rounds, Settings, Sight};
pub use log::{Sum, Verdict};
pub use pinned::{Hosts, Pinned, Seat, Told};
pub use round::{Entry, Name, Round, Why};
pub use rows::Rows;
pub use word::{Act, Asked, Origin, Row, Sent, Word};

#[cfg(test)]
mod tests;
