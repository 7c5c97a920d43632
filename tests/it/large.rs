//! Messages of the largest size, several clients at once: what waits for another node or a client
//! waits in bounded room, and nobody takes a healthy one for one that does not read.

use std::time::Duration;

use bytes::Bytes;
use gaggle_client::{SendError, SettingsChange};
use gaggle_support::tally::{Tally, spawn_consumer, stop};
use gaggle_support::{TestCluster, counter, wait_until};

use crate::EXECUTABLE;

const LARGEST: u32 = 16 * 1024 * 1024;
const CLIENTS: usize = 3;
const EACH: usize = 3;
/// They are given time, for machines that do much else.
const SENT_WITHIN: Duration = Duration::from_secs(100);

/// A body of the largest size that no other one is taken for.
fn body(serial: usize) -> Bytes {
    let mut body = vec![b'0' + u8::try_from(serial).unwrap(); LARGEST as usize];
    body[..8].copy_from_slice(&serial.to_le_bytes());
    Bytes::from(body)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_16_mib_of_several_clients_end_no_session_and_all_come() {
    let mut cluster = TestCluster::prepare(EXECUTABLE, 3);
    for index in 0..3 {
        // Busy machines are late; that must not look like a death here.
        cluster.nodes.settings_mut(index).suspicion = Some("10s".to_owned());
    }
    cluster.start_all().await;
    let client = cluster.client().await;
    let change = SettingsChange { message_size_max: Some(LARGEST), ..SettingsChange::default() };
    client.create_queue("big", change).await.unwrap();
    let before = client.status().await.unwrap();
    let tally = Tally::default();
    let mut sends = Vec::new();
    for part in 0..CLIENTS {
        // All at one node: more than may be piled up there for each of the other two.
        let queue = cluster.client_of(0).await.queue("big").unwrap();
        for index in 0..EACH {
            let (queue, tally) = (queue.clone(), tally.clone());
            sends.push(tokio::spawn(async move {
                let body = body(part * EACH + index);
                let sent = queue.send(body.clone()).within(SENT_WITHIN).await;
                tally.sent(&body, sent);
            }));
        }
    }
    for send in sends {
        send.await.unwrap();
    }
    assert_eq!(tally.failed(), Vec::<SendError>::new(), "{}", cluster.logs());
    assert_eq!(tally.confirmed_count(), CLIENTS * EACH);

    // All of it at once: far more than may wait for one client, or for one node.
    let consumer = spawn_consumer(cluster.client_of(0).await, "big", &tally);
    tally.wait_complete(Duration::from_secs(60)).await;
    tally.assert_complete();
    wait_until(&client, "the queue is empty", |status| {
        status.queues.iter().all(|queue| queue.total.messages == 0)
    })
    .await;
    assert_eq!(tally.duplicates(), 0, "P3: nothing failed");
    let after = client.status().await.unwrap();
    for name in ["sessions_ended", "sessions_all_ended", "leases_expired", "grants_given_back"] {
        let (after, before) = (counter(&after, name), counter(&before, name));
        assert_eq!(after, before, "{name}: {}", cluster.logs());
    }
    stop(vec![consumer]).await;
}
