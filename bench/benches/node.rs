//! What a node does for clients: messages sent, received and deleted over QUIC, with its disk.
//!
//! One standalone node in this process and the load generator of `gaggle bench` against it. What
//! this bench does not measure: copies at other nodes, and machines of their own; `gaggle bench`
//! does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gaggle_client::tls::Credentials;
use gaggle_client::{Client, ConnectOptions, SettingsChange};
use gaggle_node::cert;
use gaggle_node::config::{ServeConfig, ServeOptions};
use gaggle_node::load::{self, Load, Meter};
use gaggle_node::server::Server;
use gaggle_wire::{ClientName, ClusterName, NodeId};

const QUEUE: &str = "bench";
/// Messages of one iteration.
const MESSAGES: u64 = 1000;

fn config(dir: &Path) -> ServeConfig {
    let cluster = ClusterName::parse("bench").expect("it is a name");
    cert::init(dir, &cluster).expect("the directory is empty");
    let paths = cert::node(dir, NodeId(1)).expect("there is an authority");
    let options = ServeOptions {
        data: Some(dir.join("data")),
        listen: Some("127.0.0.1:0".parse().expect("it is an address")),
        standalone: Some(true),
        node_ca: Some(paths.node_ca),
        client_ca: Some(paths.client_ca),
        certificate: Some(paths.certificate),
        key: Some(paths.key),
        ..ServeOptions::default()
    };
    ServeConfig::load(None, options).expect("the options are whole")
}

async fn start(dir: &Path) -> (Server, Client) {
    let server = Server::start(config(dir)).await.expect("a port is free");
    let name = ClientName::parse("bench").expect("it is a name");
    let paths = cert::client(dir, &name).expect("there is an authority");
    let credentials = Credentials::load(&paths).expect("they were written just now");
    let address = server.addresses().listen.to_string();
    let options = ConnectOptions::new([address], credentials);
    let client = Client::connect_with(options).await.expect("the node runs");
    let queues = [QUEUE.to_owned()];
    let created = load::create_queues(&client, &queues, SettingsChange::default()).await;
    created.expect("the node takes queues");
    (server, client)
}

/// How long it takes until the last of so many messages is deleted.
async fn end_to_end(client: &Client, size: usize, messages: u64) -> Duration {
    let load = Load {
        producers: 4,
        consumers: 4,
        in_flight: 64,
        size,
        messages,
        rate: None,
        queues: vec![QUEUE.to_owned()],
        backlog: 0,
    };
    let meter = Arc::new(Meter::new(messages));
    let figures = load::run(client, client, &load, &meter).await;
    assert_eq!((figures.confirmed, figures.lost), (messages, 0), "nothing fails here");
    figures.end_to_end_time
}

fn node(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("there are threads");
    let dir = tempfile::tempdir().expect("there is room");
    let (server, client) = runtime.block_on(start(dir.path()));
    let mut group = criterion.benchmark_group("send, receive and delete at a standalone node");
    group.throughput(Throughput::Elements(MESSAGES)).sample_size(10);
    for size in [100, 1024] {
        group.bench_function(format!("{MESSAGES} x {size} B"), |bencher| {
            bencher
                .iter_custom(|times| runtime.block_on(end_to_end(&client, size, times * MESSAGES)));
        });
    }
    group.finish();
    runtime.block_on(async {
        client.close().await;
        server.stop().await.expect("its disk is well");
    });
}

criterion_group!(benches, node);
criterion_main!(benches);
