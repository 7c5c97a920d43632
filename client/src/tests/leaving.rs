//! A client that leaves: at once, and not without a word.

use std::time::{Duration, Instant};

use super::fake::{Cluster, connect};

#[tokio::test]
async fn a_client_leaves_at_once_and_its_nodes_hear_of_it() {
    let cluster = Cluster::start(3);
    // quinn's own farewell takes three times the time in which an answer is due: 75 ms and more.
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let client = connect(&cluster).await;
        let begun = Instant::now();
        client.close().await;
        quickest = quickest.min(begun.elapsed());
        cluster.all_closed().await;
    }
    assert!(quickest < Duration::from_millis(40), "it took {quickest:?}");
}
