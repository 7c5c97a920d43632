//! A fake cluster: a few QUIC servers that speak the protocol and share one memory.
//!
//! It keeps everything it was asked, so that tests can wait for and look at it, and it misbehaves
//! on demand: swallows answers, refuses, says it is silent.

use std::collections::{BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gaggle_wire::frame::{FRAME_LENGTH_MAX, Splitter, encode};
use gaggle_wire::{
    ArrivalSkew, Attempt, ClusterMember, DeleteResult, DeliveryLabel, Label, MessageId, NodeId,
    ProcessId, QueueCounts, QueueDescription, QueueId, QueueName, QueueStatus, Receipt, Refusal,
    Request, RequestFrame, Response, ResponseFrame, SentBatch, Settings, Stamp, Standing, Status,
    Welcome,
};
use quinn::{Connection, ConnectionError, Endpoint, RecvStream, SendStream};
use tokio::sync::{Notify, mpsc};

use super::certs::{self, Certs};
use crate::dialer::FAREWELL;
use crate::{Client, ConnectOptions};

/// The whole cluster. The node at position 0 has id 1, and so on.
pub(super) struct Cluster {
    certs: Certs,
    endpoints: Vec<Endpoint>,
    pub(super) shared: Arc<Shared>,
}

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
pub(super) struct State {
    members: Vec<ClusterMember>,
    /// Which node was asked what.
    pub(super) log: Vec<(u64, Request)>,
    pub(super) stored: BTreeSet<(u16, MessageId)>,
    pub(super) ready: VecDeque<(Label, Bytes)>,
    pub(super) deleted: Vec<MessageId>,
    pub(super) released: Vec<MessageId>,
    pub(super) consumers: Vec<Consumer>,
    /// Nodes that store and answer nothing to sends.
    pub(super) swallow: BTreeSet<u64>,
    /// What the next sends are answered with instead.
    pub(super) refuse_sends: VecDeque<Refusal>,
    /// A visibility timeout that deliveries have.
    pub(super) lease_ms: u64,
    /// Whether every extension comes too late.
    pub(super) refuses_extends: bool,
    connections: Vec<(u64, Connection)>,
}

/// A node, and which of the connections to it: a client may make two and keep one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    node: u64,
    connection: usize,
}

/// A consumer as a node knows it.
pub(super) struct Consumer {
    pub(super) node: u64,
    pub(super) request: u64,
    pub(super) limit: u64,
    pub(super) taken: u64,
    pub(super) sent: Vec<(Label, Bytes)>,
    connection: usize,
    out: mpsc::UnboundedSender<(ResponseFrame, Vec<Bytes>)>,
    pub(super) open: bool,
}

/// A client that is connected to every node.
pub(super) async fn connect(cluster: &Cluster) -> Client {
    let client = Client::connect_with(cluster.options()).await.unwrap();
    let all: BTreeSet<u64> = (1..=cluster.endpoints.len() as u64).collect();
    let asked = |state: &State| -> BTreeSet<u64> {
        let lists = state.log.iter().filter(|(_, r)| matches!(r, Request::ListQueues { .. }));
        lists.map(|(node, _)| *node).collect()
    };
    // Questions are spread over the nodes that are connected.
    while asked(&cluster.state()) != all {
        client.list_queues("").await.unwrap();
    }
    client
}

type Out = mpsc::UnboundedSender<(ResponseFrame, Vec<Bytes>)>;

impl Cluster {
    pub(super) fn start(nodes: u64) -> Self {
        let certs = certs::make();
        let shared = Arc::new(Shared::default());
        shared.state().lease_ms = 30_000;
        let mut endpoints = Vec::new();
        for node in 1..=nodes {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let endpoint = Endpoint::server(certs.server.clone(), any).unwrap();
            let address = endpoint.local_addr().unwrap();
            let standing = Standing::Ready;
            let member = ClusterMember { node: NodeId(node), address, standing };
            shared.state().members.push(member);
            tokio::spawn(accept(node, endpoint.clone(), Arc::clone(&shared)));
            endpoints.push(endpoint);
        }
        Self { certs, endpoints, shared }
    }

    pub(super) fn address(&self, node: u64) -> String {
        self.endpoints[usize::try_from(node).unwrap() - 1].local_addr().unwrap().to_string()
    }

    pub(super) fn options(&self) -> ConnectOptions {
        self.options_for((1..=self.endpoints.len() as u64).map(|node| self.address(node)))
    }

    /// This cluster's credentials with any addresses.
    pub(super) fn options_for(
        &self,
        addresses: impl IntoIterator<Item = String>,
    ) -> ConnectOptions {
        ConnectOptions::new(addresses, self.certs.client.clone())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// Waits until the state is as wanted.
    pub(super) async fn until(&self, wanted: impl Fn(&State) -> bool) {
        let within = std::time::Duration::from_secs(20);
        let wait = async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if wanted(&self.state()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(within, wait).await.expect("the cluster is as wanted in time");
    }

    /// Waits until the client has closed every connection, with a word about it.
    pub(super) async fn all_closed(&self) {
        let connections = std::mem::take(&mut self.state().connections);
        for (_, connection) in connections {
            match connection.closed().await {
                ConnectionError::ApplicationClosed(close) => assert_eq!(close.reason, FAREWELL),
                other => panic!("it left without a word: {other}"),
            }
        }
    }

    /// Cuts the connections of a node, as when its process dies and the kernel says so.
    pub(super) fn cut(&self, node: u64) {
        let mut state = self.state();
        let (cut, left) = std::mem::take(&mut state.connections)
            .into_iter()
            .partition::<Vec<_>, _>(|(at, _)| *at == node);
        state.connections = left;
        for (_, connection) in cut {
            connection.close(1_u32.into(), b"cut");
            state.give_back(connection.stable_id());
        }
    }

    pub(super) fn put(&self, bodies: &[&'static str]) {
        let mut state = self.state();
        for (number, body) in (1..).zip(bodies) {
            let stamp = Stamp { time: 9, count: 0, process: ProcessId(99) };
            let message = gaggle_wire::Message::new(*body);
            let number = number + state.stored.len() as u64;
            let packed = message.pack(number, stamp, 0).unwrap();
            state.ready.push_back(packed);
        }
        state.push_deliveries();
        drop(state);
        self.shared.changed.notify_waiters();
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    /// How often a node was asked to send.
    pub(super) fn sends(&self) -> Vec<(u64, Attempt, Vec<u64>)> {
        let sends = self.log.iter().filter_map(|(node, request)| match request {
            Request::Send { attempt, labels, .. } => {
                Some((*node, *attempt, labels.iter().map(|label| label.number).collect()))
            }
            _ => None,
        });
        sends.collect()
    }

    fn deliver(&self, node: u64, label: Label) -> DeliveryLabel {
        let receipt = Receipt {
            queue: QUEUE,
            partition: 0,
            number: label.number,
            stamp: label.stamp,
            holders: vec![NodeId(node)],
            custodian: NodeId(node),
            boot: 1,
            delivery: 1,
        };
        DeliveryLabel {
            receipt,
            label,
            accepted: label.stamp,
            lease_ms: self.lease_ms,
            position: None,
        }
    }

    fn push_deliveries(&mut self) {
        for at in 0..self.consumers.len() {
            loop {
                let consumer = &self.consumers[at];
                if !consumer.open || consumer.sent.len() as u64 >= consumer.limit {
                    break;
                }
                let Some((label, content)) = self.ready.pop_front() else { break };
                let deliveries = vec![self.deliver(self.consumers[at].node, label)];
                let consumer = &mut self.consumers[at];
                consumer.sent.push((label, content.clone()));
                let body = Response::Deliveries { deliveries };
                let _ = consumer.out.send((frame(consumer.request, body), vec![content]));
            }
        }
    }

    /// What consumers of a lost connection have not taken is ready again.
    fn give_back(&mut self, connection: usize) {
        let lost = |consumer: &&mut Consumer| consumer.open && consumer.connection == connection;
        for consumer in self.consumers.iter_mut().filter(lost) {
            consumer.open = false;
            let taken = usize::try_from(consumer.taken).unwrap();
            self.ready.extend(consumer.sent.drain(taken..));
        }
        self.push_deliveries();
    }

    /// A consumer that is open.
    fn consumer(&mut self, connection: usize, request: u64) -> Option<&mut Consumer> {
        let wanted =
            |c: &&mut Consumer| c.open && (c.connection, c.request) == (connection, request);
        self.consumers.iter_mut().find(wanted)
    }
}

async fn accept(node: u64, endpoint: Endpoint, shared: Arc<Shared>) {
    while let Some(incoming) = endpoint.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            let place = Place { node, connection: connection.stable_id() };
            shared.state().connections.push((node, connection.clone()));
            while let Ok((send, receive)) = connection.accept_bi().await {
                let (out, answers) = mpsc::unbounded_channel();
                tokio::spawn(write(send, answers));
                tokio::spawn(read(place, receive, out, Arc::clone(&shared)));
            }
            shared.state().give_back(place.connection);
            shared.changed.notify_waiters();
        });
    }
}

async fn write(
    mut send: SendStream,
    mut answers: mpsc::UnboundedReceiver<(ResponseFrame, Vec<Bytes>)>,
) {
    while let Some((answer, contents)) = answers.recv().await {
        if send.write_all(&encode(&answer, &contents)).await.is_err() {
            return;
        }
    }
}

async fn read(place: Place, mut receive: RecvStream, out: Out, shared: Arc<Shared>) {
    let mut splitter = Splitter::new(FRAME_LENGTH_MAX);
    while let Ok(Some(chunk)) = receive.read_chunk(1 << 20, true).await {
        splitter.push(&chunk.bytes);
        while let Some(frame) = splitter.next_frame().unwrap() {
            let request: RequestFrame = frame.header().unwrap();
            let contents = match &request.body {
                Request::Send { labels, .. } => frame.contents(labels).unwrap(),
                _ => Vec::new(),
            };
            answer(place, request, contents, (&out, &shared));
            shared.changed.notify_waiters();
        }
    }
}

fn answer(
    place: Place,
    request: RequestFrame,
    contents: Vec<Bytes>,
    (out, shared): (&Out, &Shared),
) {
    let node = place.node;
    let mut state = shared.state();
    state.log.push((node, request.body.clone()));
    let id = request.request;
    let say = |body| {
        let _ = out.send((frame(id, body), Vec::new()));
    };
    match request.body {
        Request::Hello { version, .. } => {
            let members = state.members.clone();
            say(Response::Welcome(Welcome { version, node: NodeId(node), members }));
        }
        Request::CreateQueue { name, .. } | Request::DescribeQueue { name } => {
            if name.as_str() == "missing" {
                say(Response::Refused(Refusal::QueueNotFound { queue: name.to_string() }));
            } else {
                say(Response::Queue(Box::new(describe(name))));
            }
        }
        Request::Send { partition, labels, .. } => {
            if let Some(refusal) = state.refuse_sends.pop_front() {
                return say(Response::Refused(refusal));
            }
            for (label, content) in labels.into_iter().zip(contents) {
                assert!(label.matches(&content));
                if state.stored.insert((partition, label.id())) {
                    state.ready.push_back((label, content));
                }
            }
            state.push_deliveries();
            if !state.swallow.contains(&node) {
                let accepted = Stamp { time: 1, count: 0, process: ProcessId(node) };
                say(Response::Sent(SentBatch { accepted, copies: 2, exceptions: Vec::new() }));
            }
        }
        Request::Receive { max, .. } | Request::Peek { max, .. } => {
            let count = (max as usize).min(state.ready.len());
            let taken: Vec<(Label, Bytes)> = state.ready.drain(..count).collect();
            let deliveries = taken.iter().map(|(label, _)| state.deliver(node, *label)).collect();
            let contents = taken.into_iter().map(|(_, content)| content).collect();
            let _ = out.send((frame(id, Response::Deliveries { deliveries }), contents));
        }
        body => consume(place, RequestFrame { request: id, body }, &mut state, out),
    }
}

fn consume(place: Place, request: RequestFrame, state: &mut State, out: &Out) {
    let id = request.request;
    let say = |body| {
        let _ = out.send((frame(id, body), Vec::new()));
    };
    match request.body {
        Request::Consume { queue, .. } if queue.as_str() == "missing" => {
            say(Response::Refused(Refusal::QueueNotFound { queue: queue.to_string() }));
        }
        Request::Consume { credit, .. } => {
            let (limit, taken, sent) = (credit, 0, Vec::new());
            let (out, open) = (out.clone(), true);
            let Place { node, connection } = place;
            let request = id;
            state.consumers.push(Consumer {
                node,
                request,
                limit,
                taken,
                sent,
                connection,
                out,
                open,
            });
            state.push_deliveries();
        }
        Request::Credit { consumer, limit, taken } => {
            // One whose connection was just cut is told nothing any more.
            let Some(found) = state.consumer(place.connection, consumer) else { return };
            (found.limit, found.taken) = (limit, taken);
            state.push_deliveries();
        }
        Request::StopConsume { consumer, taken } => {
            let Some(found) = state.consumer(place.connection, consumer) else { return };
            found.taken = taken;
            found.open = false;
            let back: Vec<_> = found.sent.drain(usize::try_from(taken).unwrap()..).collect();
            state.ready.extend(back);
            say(Response::Done);
        }
        Request::Delete { receipts } => {
            state.deleted.extend(receipts.iter().map(Receipt::id));
            say(Response::Deleted(vec![DeleteResult::Deleted; receipts.len()]));
        }
        Request::Release { receipts, .. } => {
            state.released.extend(receipts.iter().map(Receipt::id));
            say(Response::Released(vec![Ok(()); receipts.len()]));
        }
        Request::Extend { receipts, visibility_ms } => {
            let result =
                if state.refuses_extends { Err(Refusal::StaleReceipt) } else { Ok(visibility_ms) };
            say(Response::Extended(vec![result; receipts.len()]));
        }
        Request::ListQueues { .. } => {
            say(Response::Queues { queues: Vec::new(), more: false });
        }
        Request::Status { prefix, after } => {
            let ready = STATUS_QUEUES.into_iter().filter(|name| name.starts_with(&prefix));
            let from = after.as_ref().map_or("", QueueName::as_str);
            let mut queues: Vec<_> = ready.filter(|name| *name > from).map(figures).collect();
            let more = queues.len() > 2;
            queues.truncate(2);
            let status = Status { node: NodeId(place.node), members: Vec::new(), queues, more };
            say(Response::Status(Box::new(status)));
        }
        _ => say(Response::Done),
    }
}

fn figures(name: &str) -> QueueStatus {
    let (name, total) = (QueueName::parse(name).unwrap(), QueueCounts::default());
    QueueStatus { name, id: QUEUE, nodes: Vec::new(), total, skew: ArrivalSkew::default() }
}

/// The queues in a status, two in each page.
pub(super) const STATUS_QUEUES: [&str; 5] = ["a", "b", "ba", "c", "d"];

fn describe(name: QueueName) -> QueueDescription {
    QueueDescription { id: QUEUE, name, settings: Settings::default() }
}

fn frame(request: u64, body: Response) -> ResponseFrame {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    ResponseFrame { request, clock: u64::try_from(wall.as_nanos()).unwrap(), body }
}

pub(super) const QUEUE: QueueId = QueueId(Stamp { time: 7, count: 0, process: ProcessId(1) });
