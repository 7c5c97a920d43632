//! Who gets what, and how soon: waiting consumers, no duplicates without faults, too few hosts.

use std::time::{Duration, Instant};

use bytes::Bytes;
use gaggle_client::{Client, Outgoing, Queue, SendError, SettingsChange};
use gaggle_support::tally::{Tally, spawn_consumer, spawn_producer, stop};
use gaggle_support::{TestCluster, counter, wait_until};
use gaggle_wire::{NodeId, Refusal, Standing, Status};

use crate::EXECUTABLE;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_reaches_a_consumer_that_waits_at_another_node_at_once() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    for from in 0..3 {
        for to in 0..3 {
            let sender = cluster.client_of(from).await;
            let receiver = cluster.client_of(to).await;
            let name = format!("from-{from}-to-{to}");
            sender.create_queue(&name, SettingsChange::default()).await.unwrap();
            let (sending, receiving) =
                (sender.queue(&name).unwrap(), receiver.queue(&name).unwrap());
            let mut waits = Vec::new();
            for turn in 0..100 {
                let waiting = receiving.clone();
                let waiting = tokio::spawn(async move {
                    let received = waiting.receive(1, Duration::from_secs(20)).await.unwrap();
                    (received, Instant::now())
                });
                let waits_now =
                    async { while waiting_at(&receiver, cluster.nodes.id(to)).await == 0 {} };
                tokio::time::timeout(Duration::from_secs(20), waits_now).await.unwrap();
                let body = format!("{from} {to} {turn}");
                let sent = Instant::now();
                sending.send(body.clone()).await.unwrap();
                let (mut received, came) = waiting.await.unwrap();
                let delivery = received.pop().expect("P10: nothing is stranded");
                assert_eq!(delivery.body(), body.as_bytes());
                delivery.delete().await.unwrap();
                waits.push(came - sent);
            }
            waits.sort_unstable();
            let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
            let pair = format!("P10: from {from} to {to}");
            assert!(median < Duration::from_millis(50), "{pair}: the median was {median:?}");
            assert!(longest < Duration::from_secs(2), "{pair}: the longest was {longest:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_faults_nothing_comes_twice_although_every_hundredth_answer_is_lost() {
    let mut cluster = TestCluster::prepare(EXECUTABLE, 3);
    for index in 0..3 {
        // Busy machines are late; that must not look like a death here.
        cluster.nodes.settings_mut(index).suspicion = Some("10s".to_owned());
    }
    cluster.start_all().await;
    let client = cluster.client().await;
    client.create_queue("once", SettingsChange::default()).await.unwrap();
    let before = client.status().await.unwrap();
    let tally = Tally::default();
    let mut consumers = Vec::new();
    for index in 0..16 {
        let client = cluster.client_of(index % 3).await;
        consumers.push(spawn_consumer(client, "once", &tally));
    }
    let proxies: Vec<_> = (0..3).map(|index| cluster.proxy(index, 100)).collect();
    let mut producers = Vec::new();
    for part in 0..8 {
        let address = proxies[part % 3].address().to_string();
        let options = cluster.options().node_only(address);
        let client = Client::connect_with(options).await.unwrap();
        let bodies = (0..12_500).map(|index| Bytes::from(format!("{part}-{index}"))).collect();
        producers.push(spawn_producer(client, "once", bodies, &tally));
    }
    for producer in producers {
        producer.await.unwrap();
    }
    tally.wait_complete(Duration::from_secs(60)).await;
    tally.assert_complete();
    let swallowed: u64 = proxies.iter().map(gaggle_support::proxy::Proxy::swallowed).sum();
    assert!(swallowed > 0, "answers were lost, or this shows nothing");
    assert_eq!(tally.failed(), Vec::<SendError>::new());
    assert_eq!(tally.confirmed_count(), 100_000);
    wait_until(&client, "the queue is empty", |status| queue_is_empty(status, "once")).await;
    assert_eq!(tally.received_count(), 100_000);
    assert_eq!(tally.duplicates(), 0, "P3: duplicates must be explained");
    let after = client.status().await.unwrap();
    for name in ["sessions_ended", "sessions_all_ended", "leases_expired", "grants_given_back"] {
        assert_eq!(
            counter(&after, name),
            counter(&before, name),
            "{name}: this is no fault-free run"
        );
    }
    stop(consumers).await;
    tally.assert_complete();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_enough_hosts_a_send_says_so_and_at_least_one_goes_on_alone() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let client = cluster.client_of(0).await;
    client.create_queue("firm", SettingsChange::default()).await.unwrap();
    let change = SettingsChange { at_least: Some(1), ..SettingsChange::default() };
    client.create_queue("yielding", change).await.unwrap();
    let (firm, yielding) = (client.queue("firm").unwrap(), client.queue("yielding").unwrap());
    firm.send("before").await.unwrap();
    unknown_until_the_others_are_gone(&mut cluster, &client, &firm).await;
    wait_until(&client, "the others are seen to be gone", |status| {
        let gone = status.members.iter().filter(|member| member.standing == Standing::Down);
        // Of the others only what they told last is known.
        let mut here = status.members.iter().filter(|m| m.standing != Standing::Down);
        gone.count() == 2 && here.all(|member| sessions(member) == 0)
    })
    .await;
    // The client asks again until its time is up. Each answer is no; how soon after its time it
    // says so is the machine's matter as well, which others use: the best of ten counts.
    let mut waits = Vec::new();
    for _ in 0..10 {
        let asked = Instant::now();
        let refused = firm.send("late").within(Duration::from_millis(150)).await.unwrap_err();
        waits.push(asked.elapsed());
        assert!(matches!(refused.refusal(), Some(Refusal::NotEnoughHosts { .. })), "{refused:?}");
    }
    assert!(waits.iter().min() < Some(&Duration::from_millis(200)), "{waits:?}");
    let alone = yielding.send("alone").await.unwrap();
    assert_eq!(alone.copies, 1, "the confirm says how many nodes have it");

    cluster.start_all().await;
    wait_until(&client, "the missing copies were made", |status| {
        let queue = status.queues.iter().find(|queue| queue.name.as_str() == "yielding");
        queue.is_some_and(|queue| {
            queue.nodes.len() == 3 && queue.nodes.iter().all(|(_, counts)| counts.messages == 1)
        })
    })
    .await;
    let received = yielding.receive(10, Duration::from_secs(20)).await.unwrap();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].body(), b"alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_receipt_changes_nothing_of_the_present_delivery() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let client = cluster.client().await;
    client.create_queue("stale", SettingsChange::default()).await.unwrap();
    let queue = client.queue("stale").unwrap();
    queue.send(Outgoing::new("work")).await.unwrap();
    let short = Some(Duration::from_millis(200));
    let wait = Duration::from_secs(20);
    let first = queue.receive_for(1, wait, short).await.unwrap().pop().unwrap().into_parts().1;
    let second = queue.receive(1, wait).await.unwrap().pop().unwrap();
    assert_eq!(second.delivery_count(), 2);
    let extended = client.extend_all([first.clone()], Duration::from_secs(60)).await;
    let refused = extended.into_iter().next().unwrap().unwrap_err();
    assert_eq!(refused.refusal(), Some(&Refusal::StaleReceipt));
    let released = client.release_all([first], Duration::ZERO).await;
    let refused = released.into_iter().next().unwrap().unwrap_err();
    assert_eq!(refused.refusal(), Some(&Refusal::StaleReceipt));
    second.delete().await.unwrap();
    assert!(queue.receive(1, Duration::from_millis(500)).await.unwrap().is_empty());
}

/// Kills both others. As long as that is not known nobody can say more of a send than: unknown. A
/// send that was too late for that says nothing: the others come back and are killed again.
async fn unknown_until_the_others_are_gone(
    cluster: &mut TestCluster,
    client: &Client,
    firm: &Queue,
) {
    for _ in 0..10 {
        cluster.kill(1).await;
        cluster.kill(2).await;
        let early = firm.send("early").within(Duration::from_millis(300)).await;
        let error = early.expect_err("one host of the two that it takes is alive");
        let status = client.status().await.unwrap();
        let here = status.members.iter().find(|member| member.node == cluster.nodes.id(0));
        if here.is_some_and(|member| sessions(member) == 2) {
            assert!(matches!(error, SendError::Unknown { .. }), "{error:?}");
            return;
        }
        cluster.start_all().await;
    }
    panic!("the others were always seen to be gone before the send was over");
}

fn queue_is_empty(status: &Status, name: &str) -> bool {
    let queue = status.queues.iter().find(|queue| queue.name.as_str() == name);
    queue.is_some_and(|queue| queue.total.messages == 0 && queue.total.in_flight == 0)
}

/// How many receives wait at a node, as that node says.
async fn waiting_at(client: &Client, node: NodeId) -> u64 {
    let status = client.status().await.unwrap();
    let member = status.members.iter().find(|member| member.node == node).unwrap();
    let counters = &member.report.as_ref().expect("it was asked").counters;
    counters.iter().find(|(name, _)| name == "receives_waiting").map_or(0, |(_, count)| *count)
}

fn sessions(member: &gaggle_wire::MemberStatus) -> usize {
    member.report.as_ref().map_or(0, |report| report.sessions.len())
}
