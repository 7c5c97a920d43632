//! `gaggle serve` as a process of its own: flags win over variables, these over the file; and a
//! node that is stopped under load hands over what it has.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use gaggle_client::{SendError, SettingsChange};
use gaggle_node::cluster::free_addresses;
use gaggle_support::tally::{Tally, spawn_consumer, spawn_producer, stop};
use gaggle_support::{TestCluster, until, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::EXECUTABLE;
use crate::shell::{Shell, parse};

/// Certificates, and a file that says one thing where flags and variables say another.
struct Place {
    shell: Shell,
    addresses: Vec<SocketAddr>,
    file: PathBuf,
}

/// A node that runs alone.
struct Running(Child);

impl Place {
    fn new() -> Self {
        let shell = Shell::new(String::new());
        let dir = shell.home.path().join("certs");
        let certs = dir.display();
        let dir = certs.to_string();
        shell.succeed(&["cert", "init", "--name", "lone", "--dir", &dir], b"");
        shell.succeed(&["cert", "node", "1", "--dir", &dir], b"");
        shell.succeed(&["cert", "client", "ops", "--dir", &dir], b"");
        let addresses = free_addresses(3).unwrap();
        let file = shell.home.path().join("node.toml");
        let text = format!(
            "data = {:?}\nlisten = \"{}\"\nstandalone = true\nzone = \"file\"\n\
             node_ca = \"{certs}/node-ca.pem\"\nclient_ca = \"{certs}/client-ca.pem\"\n\
             certificate = \"{certs}/node-1.pem\"\nkey = \"{certs}/node-1.key\"\n",
            shell.home.path().join("data"),
            addresses[0],
        );
        std::fs::write(&file, text).unwrap();
        Self { shell, addresses, file }
    }

    /// Starts the node, which must listen there.
    fn start(&self, at: usize, variables: &[(&str, &str)], flags: &[&str]) -> (Running, Shell) {
        let mut command = Command::new(EXECUTABLE);
        command.arg("serve").arg("--until-stdin-closes").args(flags);
        command.env_clear().env("GAGGLE_CONFIG", &self.file).envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = log.by_ref().find(|line| line.contains("the node runs")).expect("it starts");
        std::thread::spawn(move || log.for_each(drop));
        let address = self.addresses[at];
        assert!(line.contains(&format!("listen={address}")), "{line}");
        let certs = self.shell.home.path().join("certs").display().to_string();
        let url = format!(
            "gaggle://{address}?ca={certs}/node-ca.pem&cert={certs}/client-ops.pem\
             &key={certs}/client-ops.key"
        );
        (Running(child), Shell::new(url))
    }
}

impl Running {
    fn terminate(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

fn zone(shell: &Shell) -> String {
    let status = parse(&shell.succeed(&["status", "--wait", "--json"], b""));
    status["nodes"][0]["zone"].as_str().unwrap().to_owned()
}

fn replicas(shell: &Shell, name: &str) -> u64 {
    let create = ["queue", "create", name, "--confirms", "1", "--json"];
    let queue = parse(&shell.succeed(&create, b""));
    queue["settings"]["replicas"].as_u64().unwrap()
}

#[test]
fn a_flag_wins_over_a_variable_and_a_variable_over_the_file() {
    let place = Place::new();
    let address = |at: usize| place.addresses[at].to_string();
    let (node, shell) = place.start(0, &[], &[]);
    assert_eq!((zone(&shell).as_str(), replicas(&shell, "file")), ("file", 1));
    shell.succeed(&["send", "file", "alone"], b"");
    node.terminate();

    let (second, third) = (address(1), address(2));
    let variables = [
        ("GAGGLE_LISTEN", second.as_str()),
        ("GAGGLE_STANDALONE", "false"),
        ("GAGGLE_ZONE", "variable"),
        ("GAGGLE_SUSPICION", "2s"),
    ];
    let (node, shell) = place.start(1, &variables, &[]);
    assert_eq!((zone(&shell).as_str(), replicas(&shell, "variable")), ("variable", 3));
    let received = shell.succeed(&["receive", "file", "--wait", "20s", "--delete"], b"");
    assert_eq!(received, "alone\n", "what a node alone confirmed is there after a stop");
    node.terminate();

    let limits = "--store-cache 32MiB --body-cache 16MiB --sends-max 64MiB --clients-max 9 \
                  --arrivals-max 50 --suspicion 1s --serve-alone-after 1s --drift-max 400ms";
    let flags = ["--listen", &third, "--standalone", "--zone", "flag"];
    let flags: Vec<&str> = flags.into_iter().chain(limits.split_whitespace()).collect();
    let (node, shell) = place.start(2, &variables, &flags);
    assert_eq!((zone(&shell).as_str(), replicas(&shell, "flag")), ("flag", 1));
    node.terminate();
    let (node, shell) = place.start(0, &[], &["--standalone=false"]);
    assert_eq!(replicas(&shell, "off"), 3, "a flag takes back what the file says");
    node.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_stopped_under_load_loses_nothing_and_its_leases_are_honoured() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let client = cluster.client_of(1).await;
    client.create_queue("load", SettingsChange::default()).await.unwrap();
    let tally = Tally::default();
    // These are out, given by every node, while the node goes; nobody else may be given them.
    let queue = client.queue("load").unwrap();
    for number in 0..200 {
        let body = format!("held {number}");
        tally.sent(body.as_bytes(), queue.send(body.clone()).await);
    }
    let mut out = Vec::new();
    while out.len() < 200 {
        out.extend(queue.receive(50, Duration::from_secs(20)).await.unwrap());
    }
    out.iter().for_each(|delivery| tally.received(delivery.received()));
    let mut consumers = Vec::new();
    let mut producers = Vec::new();
    for part in 0..4 {
        let bodies = (0..5000).map(|index| Bytes::from(format!("{part}-{index}"))).collect();
        producers.push(spawn_producer(cluster.client().await, "load", bodies, &tally));
        consumers.push(spawn_consumer(cluster.client_of(1 + part % 2).await, "load", &tally));
    }
    until(|| tally.confirmed_count() > 4000).await;
    cluster.nodes.stop(0).await.unwrap();
    assert!(tally.confirmed_count() < 20_200, "it stopped under load");
    for producer in producers {
        producer.await.unwrap();
    }
    tally.wait_complete(Duration::from_secs(60)).await;
    tally.assert_complete();
    assert_eq!(tally.failed(), Vec::<SendError>::new());
    assert_eq!(tally.received_count(), 20_200);
    assert_eq!(tally.duplicates(), 0, "P3: a stop is no fault, and its leases run on");
    for delivery in out {
        delivery.delete().await.unwrap();
    }
    wait_until(&client, "the queue is empty", |status| {
        let queue = status.queues.iter().find(|queue| queue.name.as_str() == "load");
        queue.is_some_and(|queue| queue.total.messages == 0 && queue.total.in_flight == 0)
    })
    .await;
    assert_eq!(tally.duplicates(), 0);
    stop(consumers).await;
}
