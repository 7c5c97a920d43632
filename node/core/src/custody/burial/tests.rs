//! Blocks of tombstones: kept, told, merged, dropped.

use gaggle_wire::{QueueId, Stamp};

use super::*;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);
const P: ProcessId = ProcessId(9);
const PARTITION: PartitionId = (QueueId(Stamp::ZERO), 0);
const WINDOW: Duration = Duration::from_secs(120);

fn record(first: u64, last: u64) -> BlockRecord {
    let messages = vec![(P, Ranges::of(first, last))];
    BlockRecord { messages, holders: vec![A, B, C], expires_ms: u64::MAX }
}

fn at(seconds: u64) -> Mono {
    Mono(seconds * 1_000_000_000)
}

fn delete(burials: &mut Burials, waiting: &[NodeId]) -> u64 {
    let block = burials.add(PARTITION, record(1, 5), [A], at(0));
    let batch = burials.batch();
    let new = NewBurying {
        call: Some(1),
        at: vec![0],
        told: Told {
            partition: PARTITION,
            holders: vec![A, B],
            messages: record(1, 5).messages,
            stamps: Vec::new(),
            leases: Vec::new(),
        },
        blocks: vec![block],
        here: Some(A),
        confirms: 2,
        deadline: at(10),
    };
    burials.start(batch, waiting.iter().copied(), new);
    batch
}

#[test]
fn a_delete_is_done_when_every_holder_in_session_has_it_and_that_is_enough() {
    let mut burials = Burials::default();
    let batch = delete(&mut burials, &[B, C]);
    assert_eq!(burials.buried_by(B, batch), Some(Standing::Waiting));
    assert_eq!(burials.buried_by(B, batch), Some(Standing::Waiting));
    assert_eq!(burials.buried_by(C, batch), Some(Standing::Done));
    burials.finish(batch).unwrap();
    let news = burials.take_news();
    assert_eq!(news[&B], [(batch, vec![A, B, C])]);
}

#[test]
fn with_too_few_holders_the_outcome_is_not_done() {
    let mut burials = Burials::default();
    let batch = delete(&mut burials, &[B]);
    assert_eq!(burials.lost(B), [batch]);
    assert_eq!(burials.standing(batch), Some(Standing::TooFew));
}

#[test]
fn a_block_is_kept_until_all_have_it_and_nobody_resends() {
    let mut burials = Burials::default();
    let batch = delete(&mut burials, &[B, C]);
    burials.buried_by(B, batch);
    burials.buried_by(C, batch);
    burials.finish(batch);
    let collect = |burials: &mut Burials, seconds| {
        burials.collect((at(seconds), Wall(0)), WINDOW, |_| false, |_| false).len()
    };
    assert_eq!(collect(&mut burials, 119), 0);
    assert_eq!(collect(&mut burials, 121), 1);

    delete(&mut burials, &[B]);
    assert_eq!(collect(&mut burials, 100_000), 0, "an absent holder is waited for");
    let pushes = burials.open_for(C, at(100_000), Duration::ZERO);
    assert_eq!((pushes.len(), &pushes[0].messages), (1, &record(1, 5).messages));
    burials.buried_by(C, pushes[0].batch);
    assert!(burials.open_for(C, at(200_000), Duration::ZERO).is_empty());
}

#[test]
fn what_is_open_for_a_node_is_told_in_few_batches() {
    let mut burials = Burials::default();
    for first in [1, 11, 21] {
        burials.add(PARTITION, record(first, first + 9), [A], at(0));
    }
    let pushes = burials.open_for(B, at(1), Duration::ZERO);
    assert_eq!(pushes.len(), 1);
    assert_eq!(pushes[0].messages, [(P, Ranges::of(1, 30))]);
    burials.forget_node(B);
    assert_eq!(burials.open_for(B, at(2), Duration::ZERO).len(), 1);
}

#[test]
fn blocks_that_all_know_become_one_that_goes_when_the_last_of_them_may() {
    let mut burials = Burials::default();
    let numbers = [(1, 5), (6, 9), (20, 20)];
    let blocks = numbers
        .map(|(first, last)| burials.add(PARTITION, record(first, last), [A, B, C], at(first)));
    let open = burials.add(PARTITION, record(30, 31), [A, B], at(1));
    let other = BlockRecord { holders: vec![A, B], ..record(40, 41) };
    burials.add(PARTITION, other, [A, B], at(1));
    assert!(burials.join(at(3)).is_empty(), "news may be on their way");
    let joined = burials.join(at(9));
    assert_eq!(joined.len(), 1);
    let Joined { block, record: said, gone, .. } = &joined[0];
    assert_eq!((*block, gone.as_slice()), (blocks[0], &blocks[1..2]), "the third came much later");
    assert_eq!(said.messages, [(P, Ranges::of(1, 9))]);
    assert_eq!(burials.count(), 4);
    let collect = |burials: &mut Burials, seconds| {
        let taken = burials.collect((at(seconds), Wall(0)), WINDOW, |_| false, |_| false);
        taken.into_iter().map(|(number, _)| number).collect::<Vec<u64>>()
    };
    assert!(!collect(&mut burials, 126).contains(block), "its last part is not old enough");
    assert!(collect(&mut burials, 127).contains(block));
    assert!(!collect(&mut burials, 10_000).contains(&open));
}

#[test]
fn a_joined_block_is_open_again_for_a_node_that_lost_its_disk() {
    let mut burials = Burials::default();
    for first in [1, 11] {
        burials.add(PARTITION, record(first, first + 9), [A, B, C], at(0));
    }
    assert_eq!(burials.join(at(5)).len(), 1);
    burials.forget_node(C);
    let pushes = burials.open_for(C, at(6), Duration::ZERO);
    assert_eq!(pushes.len(), 1);
    assert_eq!(pushes[0].messages, [(P, Ranges::of(1, 20))]);
}
