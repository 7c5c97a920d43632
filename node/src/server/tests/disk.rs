//! Write before speak, and what happens when the disk fails.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use gaggle_client::Client;
use gaggle_wire::{
    Attempt, Label, Message, ProcessId, QueueId, Refusal, Request, Response, SettingsChange, Stamp,
};
use redb::StorageBackend;

use super::raw::{Raw, code};
use super::*;
use crate::net::close::Close;
use crate::store::{Store, StoreSource};

/// A disk whose syncs can be held up or made to fail. What was not synced is lost with them.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<(Mutex<Platter>, Condvar)>);

#[derive(Debug, Default)]
struct Platter {
    live: Vec<u8>,
    synced: Vec<u8>,
    behaviour: Behaviour,
    /// Syncs that wait to be let go.
    held: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Behaviour {
    #[default]
    Well,
    Holding,
    FailingOnce,
    Failing,
}

impl Disk {
    fn set(&self, behaviour: Behaviour) {
        self.0.0.lock().unwrap().behaviour = behaviour;
        self.0.1.notify_all();
    }

    /// Waits until a sync is held up.
    async fn holds(&self) {
        let disk = self.clone();
        let wait = move || {
            let platter = disk.0.0.lock().unwrap();
            drop(disk.0.1.wait_while(platter, |platter| platter.held == 0).unwrap());
        };
        tokio::task::spawn_blocking(wait).await.unwrap();
    }

    fn source(&self) -> StoreSource {
        let disk = self.clone();
        let options = StoreOptions::cached(1024 * 1024);
        StoreSource::new(move || {
            {
                // As after a crash: what was not synced is gone.
                let mut platter = disk.0.0.lock().unwrap();
                platter.live = platter.synced.clone();
            }
            Store::open_backend(disk.clone(), &options)
        })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.0.lock().unwrap().live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let offset = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.0.0.lock().unwrap().live[offset..offset + out.len()]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        self.0.0.lock().unwrap().live.resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut platter = self.0.0.lock().unwrap();
        platter.held += 1;
        self.0.1.notify_all();
        let holding = |platter: &mut Platter| platter.behaviour == Behaviour::Holding;
        let mut platter = self.0.1.wait_while(platter, holding).unwrap();
        platter.held -= 1;
        match platter.behaviour {
            Behaviour::Well | Behaviour::Holding => {
                platter.synced = platter.live.clone();
                Ok(())
            }
            Behaviour::FailingOnce => {
                platter.behaviour = Behaviour::Well;
                Err(io::Error::other("EIO"))
            }
            Behaviour::Failing => Err(io::Error::other("EIO")),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let offset = usize::try_from(offset).unwrap();
        self.0.0.lock().unwrap().live[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
}

async fn create(client: &Client) -> QueueId {
    let change = SettingsChange { partitions: Some(1), ..Default::default() };
    client.create_queue("orders", change).await.unwrap().id
}

/// A send of one message with this number, stamped by this wall clock.
fn send(queue: QueueId, number: u64) -> (Request, Bytes) {
    let time = Clocks::start().now().wall.0;
    let stamp = Stamp { time, count: u32::try_from(number).unwrap(), process: ProcessId(7) };
    let (label, content): (Label, Bytes) = Message::new("body").pack(number, stamp, 0).unwrap();
    let labels = vec![label];
    let attempt = Attempt::First;
    (Request::Send { queue, partition: 0, attempt, within_ms: 10_000, labels }, content)
}

#[tokio::test]
async fn nothing_is_confirmed_before_it_is_on_disk_and_what_gathers_is_confirmed_together() {
    let (house, disk) = (House::new(), Disk::default());
    let server = Server::start_on(house.config(1, &[]), disk.source()).await.unwrap();
    let client = Client::connect_with(house.options(&server, "a")).await.unwrap();
    let queue = create(&client).await;
    let mut raw = Raw::greeted(&house, &server).await;
    disk.set(Behaviour::Holding);
    let (first, content) = send(queue, 1);
    raw.ask(2, first, &[content]).await;
    disk.holds().await;
    let (second, content) = send(queue, 2);
    raw.ask(3, second, &[content]).await;
    // Claims nothing, so it does not wait: by its answer the sends before it were handled.
    let (damaged, _) = send(queue, 3);
    raw.ask(4, damaged, &[Bytes::from_static(b"BODY")]).await;
    let answer = raw.answer().await;
    assert_eq!((answer.request, answer.body), (4, Response::Refused(Refusal::ContentDamaged)));
    disk.set(Behaviour::Well);
    for request in [2, 3] {
        let answer = raw.answer().await;
        assert_eq!(answer.request, request);
        let Response::Sent(sent) = answer.body else { panic!("{:?}", answer.body) };
        assert_eq!((sent.copies, sent.exceptions.len()), (1, 0));
    }
    client.close().await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_failed_commit_is_unknown_to_who_asked_and_the_node_goes_on_as_another_run() {
    let (house, disk) = (House::new(), Disk::default());
    let server = Server::start_on(house.config(1, &[]), disk.source()).await.unwrap();
    let client = Client::connect_with(house.options(&server, "a")).await.unwrap();
    let queue = create(&client).await;
    client.queue("orders").unwrap().send("kept").await.unwrap();
    let boot = client.status().await.unwrap().members[0].report.as_ref().unwrap().boot;
    let mut raw = Raw::greeted(&house, &server).await;
    disk.set(Behaviour::FailingOnce);
    let (lost, content) = send(queue, 1);
    raw.ask(2, lost, &[content]).await;
    assert_eq!(raw.closed().await, code(Close::StoreFailed));
    // The SDK comes back by itself, and finds what was confirmed.
    let got = client.queue("orders").unwrap().receive(10, Duration::from_secs(10)).await.unwrap();
    assert!(got.iter().any(|delivery| delivery.body() == b"kept"));
    let status = client.status().await.unwrap();
    assert_eq!(status.members[0].report.as_ref().unwrap().boot, boot + 1);
    drop(got);
    client.close().await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_disk_that_keeps_failing_ends_the_node() {
    let (house, disk) = (House::new(), Disk::default());
    let mut server = Server::start_on(house.config(1, &[]), disk.source()).await.unwrap();
    disk.set(Behaviour::Failing);
    assert!(matches!(server.ended().await, Err(ServeError::Drive(DriveError::Store(_)))));
}
