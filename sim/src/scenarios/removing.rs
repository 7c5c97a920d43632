//! Members that are removed: nothing is lost, and they never come back.

use gaggle_wire::{Loss, NodeId, QueueDescription, Refusal, Request, Response, SettingsChange};

use super::support::{
    MS, SECOND, create, delete, drained, formed_of, labels, one_partition, received, sent,
};
use crate::World;
use crate::options::{Options, node_id, place};

const COUNT: usize = 200;

fn nodes(count: usize, seed: u64, change: SettingsChange) -> (World, QueueDescription) {
    let mut options = Options::calm(count, seed);
    options.replace_after = std::time::Duration::from_mins(15);
    options.replace_rate = 1_000_000;
    options.resend_window = std::time::Duration::from_secs(5);
    let mut world = formed_of(options);
    let queue = create(&mut world, change);
    let all = labels(&world, 7, 1, COUNT as u64);
    sent(&mut world, 0, &queue, &all);
    world.run(100 * MS);
    (world, queue)
}

fn holders(world: &World, nodes: usize) -> Vec<usize> {
    (0..nodes).filter(|at| world.stored(*at) > 0).collect()
}

/// A node that is up and another one.
fn other(world: &World, node: usize) -> usize {
    (0..).find(|at| *at != node && world.is_up(*at)).expect("not all are down")
}

fn ask(world: &mut World, node: usize, loss: Loss) -> Response {
    let at = other(world, node);
    world.removal_asked(node, loss);
    world.call(at, Request::RemoveNode { node: node_id(node), loss })
}

/// Removes a node as an operator does.
fn remove(world: &mut World, node: usize, loss: Loss) {
    for _ in 0..100 {
        match ask(world, node, loss) {
            Response::Done => return,
            Response::Leaving { .. } => world.run(300 * MS),
            other => panic!("{other:?}"),
        }
    }
    panic!("node {} is not removed", node + 1);
}

fn what_a_removed_member_held_is_elsewhere_before_it_ends() {
    let (mut world, _) = nodes(5, 201, one_partition());
    let holders = holders(&world, 5);
    remove(&mut world, holders[0], Loss::Refused);
    let ended = |world: &World| !world.is_up(holders[0]) && world.stored(holders[0]) == 0;
    assert!(world.run_until(SECOND, ended), "it is told and ends, and its disk is thrown away");
    for gone in &holders[1..] {
        world.crash(*gone);
    }
    world.run(20 * SECOND);
    let node = other(&world, holders[0]);
    let came = received(&mut world, node, 1000).len();
    assert_eq!(came, COUNT, "P1: none of the first three is there");
}

fn what_only_one_node_should_have_goes_to_another_before_it_is_removed() {
    let alone = SettingsChange { replicas: Some(1), confirms: Some(1), ..one_partition() };
    let (mut world, _) = nodes(3, 202, alone);
    let holder = holders(&world, 3)[0];
    remove(&mut world, holder, Loss::Refused);
    world.run(SECOND);
    let node = other(&world, holder);
    assert_eq!(drained(&mut world, node).len(), COUNT, "P1");
}

fn leases_and_deletes_outlast_the_removal_of_their_custodian() {
    let (mut world, _) = nodes(4, 203, one_partition());
    let came = received(&mut world, 0, 1000);
    let custodian = place(came[0].receipt.custodian);
    let node = other(&world, custodian);
    let (deleted, kept) = came.split_at(50);
    delete(&mut world, node, deleted.iter().map(|delivery| delivery.receipt.clone()).collect());
    remove(&mut world, custodian, Loss::Refused);
    let rest: Vec<u64> = drained(&mut world, node);
    let twice = kept.iter().filter(|delivery| rest.contains(&delivery.label.number)).count();
    assert_eq!(twice, 0, "P3: their leases run");
    assert_eq!(rest.len() + came.len(), COUNT, "P1, P4");
}

fn a_removed_disk_is_never_let_in_again_and_an_empty_one_joins_as_a_new_host() {
    let (mut world, queue) = nodes(4, 204, one_partition());
    let gone = holders(&world, 4)[0];
    world.keep_disk(gone);
    let node = other(&world, gone);
    remove(&mut world, gone, Loss::Refused);
    assert_eq!(drained(&mut world, node).len(), COUNT);
    world.run(10 * SECOND);
    world.put_back(gone);
    assert!(world.stored(gone) > 0, "its old disk is there again");
    world.start(gone);
    assert!(world.run_until(10 * SECOND, |world| !world.is_up(gone)), "it is turned away");
    assert!(received(&mut world, node, 1000).is_empty(), "P4: and brings nothing back");
    world.start(gone);
    assert!(world.run_until(10 * SECOND, |world| world.is_whole(4)), "a new host");
    let more = labels(&world, 8, 1, 50);
    sent(&mut world, node, &queue, &more);
    world.run(SECOND);
    assert!(world.stored(gone) > 0, "it is a home host again");
}

fn who_is_away_is_removed_only_if_what_it_has_may_be_lost() {
    let (mut world, _) = nodes(5, 205, one_partition());
    let gone = holders(&world, 5)[0];
    world.crash(gone);
    world.run(2 * SECOND);
    let refused = ask(&mut world, gone, Loss::Refused);
    assert_eq!(refused, Response::Refused(Refusal::NodeAway { node: node_id(gone) }));
    remove(&mut world, gone, Loss::Accepted);
    let copies = (0..5).filter(|at| world.is_up(*at)).map(|at| world.stored(at)).sum::<usize>();
    assert_eq!(copies, 3 * COUNT, "what others know of is made up for first");
    world.start(gone);
    assert!(world.run_until(10 * SECOND, |world| !world.is_up(gone)), "it is turned away");
}

fn a_removal_can_be_called_off() {
    let (mut world, queue) = nodes(4, 206, one_partition());
    let stays = holders(&world, 4)[0];
    let begun = ask(&mut world, stays, Loss::Refused);
    assert_eq!(begun, Response::Leaving { left: None });
    world.run(SECOND);
    assert!(!world.is_ready(stays), "clients go elsewhere");
    let node = other(&world, stays);
    let before = world.stored(stays);
    let more = labels(&world, 8, 1, 50);
    sent(&mut world, node, &queue, &more);
    world.run(SECOND);
    assert_eq!(world.stored(stays), before, "it gets nothing new");
    let kept = world.call(node, Request::KeepNode { node: node_id(stays) });
    assert_eq!(kept, Response::Done);
    assert!(world.run_until(SECOND, |world| world.is_whole(4)));
    let more = labels(&world, 9, 1, 50);
    sent(&mut world, node, &queue, &more);
    world.run(SECOND);
    assert_eq!(world.stored(stays), before + 50, "it is a home host as before");
}

fn a_node_that_does_not_exist_or_is_needed_for_a_confirm_is_not_removed() {
    let (mut world, _) = nodes(2, 207, one_partition());
    let unknown = NodeId(77);
    let refused = world.call(0, Request::RemoveNode { node: unknown, loss: Loss::Refused });
    assert_eq!(refused, Response::Refused(Refusal::NodeNotFound { node: unknown }));
    let refused = ask(&mut world, 1, Loss::Refused);
    let too_few = Refusal::NotEnoughHosts { wanted: 2, reachable: 1 };
    assert_eq!(refused, Response::Refused(too_few));
    assert!(world.is_whole(2));
}

scenarios!(
    what_a_removed_member_held_is_elsewhere_before_it_ends,
    what_only_one_node_should_have_goes_to_another_before_it_is_removed,
    leases_and_deletes_outlast_the_removal_of_their_custodian,
    a_removed_disk_is_never_let_in_again_and_an_empty_one_joins_as_a_new_host,
    who_is_away_is_removed_only_if_what_it_has_may_be_lost,
    a_removal_can_be_called_off,
    a_node_that_does_not_exist_or_is_needed_for_a_confirm_is_not_removed,
);
