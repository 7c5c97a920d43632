//! The status of a cluster, put together from the pages in which it comes.

use super::fake::{Cluster, STATUS_QUEUES, connect};

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_of_the_status_are_put_together_and_one_queue_takes_one() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    let status = client.status().await.unwrap();
    let names: Vec<&str> = status.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!((names.as_slice(), status.more), (&STATUS_QUEUES[..], false));
    let b = client.queue_status("b").await.unwrap().unwrap();
    assert_eq!(b.name.as_str(), "b");
    assert_eq!(client.queue_status("bb").await.unwrap(), None);
    assert!(client.queue_status("no name").await.is_err());
}
