//! Every setting and limit of a node, each with the reason for its default.
//!
//! The runtime fills it from flags, files and certificates and checks it there; tests and the
//! simulator set small limits to make rare things happen. What this file does not do: settings of
//! queues are in the wire language, what crosses the wire has its limits there.

use std::net::SocketAddr;
use std::time::Duration;

use gaggle_wire::{NodeId, Settings};

/// The settings of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who this is, as in the certificate.
    pub node: NodeId,
    /// Where peers reach it.
    pub peer_address: SocketAddr,
    /// Where clients reach it.
    pub client_address: SocketAddr,
    /// Its zone; empty for none. At most 64 bytes.
    pub zone: String,
    /// Where to look for other nodes.
    pub seeds: Vec<SocketAddr>,
    /// What a new queue has when nothing is said.
    pub queue_defaults: Settings,
    /// Randomness of this run: jitter, gossip, the process id.
    pub seed: u64,
    /// The number of the first run on an empty store, 1 to [`Self::FIRST_BOOT_MAX`]. Drawn by the
    /// runtime: a receipt that a lost disk gave out must name no delivery of the next one (F6).
    pub first_boot: u64,
    /// How far a stamp may lie ahead of the own wall clock: far above what NTP keeps (tens of
    /// milliseconds), far below what would freeze a clock for long.
    pub drift_max: Duration,
    /// How far ahead of use the ceiling of stamps is written: one write per half of it, and no
    /// more than the drift bound, or a restart would make stamps that others refuse.
    pub ceiling_step: Duration,
    /// How long a silent member is suspected before it is down: with a probe period of 200 ms the
    /// median of detection is 1.3 s. Tests on noisy machines take 10 s.
    pub suspicion: Duration,
    /// How long a started node waits for the members it remembers before it serves without them.
    pub serve_alone_after: Duration,
    /// How long a host knows the ids it has seen: the SDK never sends an id again later.
    pub resend_window: Duration,
    /// How long a message may be at too few hosts before its holders look after it themselves.
    pub open_after: Duration,
    /// For how long a node lags before it is slow, and is well before it is not slow any more.
    pub slow_after: Duration,
    /// How old a lease is before the other holders are told: most deliveries end sooner.
    pub tell_leases_after: Duration,
    /// How long a host is away before what it held gets one more holder: longer than a restart
    /// or an update of a machine takes, which need no copying.
    pub replace_after: Duration,
    /// Bytes per second that are copied to new holders: below what a disk and a network give,
    /// so that sends and receives go first.
    pub replace_rate: u64,
    /// Bytes per second that are read to see whether they are whole: what a disk hardly notices.
    pub scrub_rate: u64,
    /// How often all rows are read for that: rot is slow, and a copy lost for a day is one of
    /// several.
    pub scrub_every: Duration,
    /// Messages of a partition that are kept in memory ahead of delivery, at most.
    pub window_max: usize,
    /// Rows that are read in one go.
    pub page_rows: usize,
    /// Ranges that one part of an inventory says, at most. A range is at most 20 bytes, a process
    /// or a partition, which count as one each, 32: below a frame by far, and 15 ms at 100 MB/s.
    pub inventory_part: usize,
    /// Messages of a queue that one node may have in flight, over all partitions that it hands out
    /// (SQS: 120,000 per queue).
    pub in_flight_max: usize,
    /// Requests that wait at a node (receives, sends under way), at most.
    pub waiting_max: usize,
    /// Whether strict queues may be created. They are not finished: their hosts do not change, so
    /// one that loses a majority of its disks stands still.
    pub strict_queues: bool,
    /// Queues, at most: every node has the whole table. What others have made beyond it is taken
    /// in all the same, or tables would never be the same.
    pub queues_max: usize,
    /// Entries of the table, at most: those of deleted queues stay until all members know, so that
    /// none comes back. All of them are told as a session begins, 200 bytes and a name each:
    /// 200,000 are below what may wait for a node (64 MiB).
    pub entries_max: usize,
}

impl Config {
    /// Far below the bound by which a boot counter may jump in gossip, see
    /// `membership/identity.rs`.
    pub const FIRST_BOOT_MAX: u64 = 1 << 19;

    /// The defaults of a node at these addresses.
    #[must_use]
    pub fn new(node: NodeId, peer_address: SocketAddr, client_address: SocketAddr) -> Self {
        Self {
            node,
            peer_address,
            client_address,
            zone: String::new(),
            seeds: Vec::new(),
            queue_defaults: Settings::default(),
            seed: 0,
            first_boot: 1,
            drift_max: Duration::from_millis(500),
            ceiling_step: Duration::from_millis(400),
            suspicion: Duration::from_millis(900),
            serve_alone_after: Duration::from_secs(10),
            resend_window: Duration::from_mins(2),
            open_after: Duration::from_secs(1),
            slow_after: Duration::from_secs(10),
            tell_leases_after: Duration::from_millis(200),
            replace_after: Duration::from_mins(15),
            replace_rate: 8 * 1024 * 1024,
            scrub_rate: 4 * 1024 * 1024,
            scrub_every: Duration::from_hours(24),
            window_max: 4096,
            page_rows: 1000,
            inventory_part: 50_000,
            in_flight_max: 120_000,
            waiting_max: 100_000,
            strict_queues: false,
            queues_max: 100_000,
            entries_max: 200_000,
        }
    }
}
