//! The store on a file and on a backend in memory, whole and damaged.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use gaggle_core::event::LoadId;
use gaggle_core::ledger::key::{messages, rows_of_queue};
use gaggle_core::ledger::{MessageRecord, Write};
use gaggle_wire::{Message, NodeId, ProcessId, QueueId, Stamp};
use redb::backends::InMemoryBackend;
use tokio::sync::mpsc::unbounded_channel;

use super::*;

const OPTIONS: StoreOptions = StoreOptions::cached(1024 * 1024);

fn queue(time: u64) -> QueueId {
    QueueId(Stamp { time, count: 0, process: ProcessId(1) })
}

/// A message of queue 1 with this body.
fn message(time: u64, body: &str) -> (MessageKey, Label, Bytes, Change) {
    let stamp = Stamp { time, count: 0, process: ProcessId(7) };
    let key = MessageKey { queue: queue(1), partition: 0, stamp };
    let (label, content) = Message::new(body.to_owned()).pack(time, stamp, 0).unwrap();
    let record = MessageRecord { label, accepted: stamp, holders: vec![NodeId(1)] };
    let write = Write::PutMessage { key, header: record.encode(&key), label };
    (key, label, content.clone(), Change { write, content: Some(content) })
}

fn put(key: Key, value: &[u8]) -> Change {
    Change { write: Write::Put { key: key.encode(), value: value.to_vec() }, content: None }
}

fn in_memory() -> Store {
    Store::open_backend(InMemoryBackend::new(), &OPTIONS).unwrap()
}

/// A disk that counts how often it was told to sync.
#[derive(Debug)]
struct Counted(InMemoryBackend, Arc<AtomicU32>);

impl StorageBackend for Counted {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

#[test]
fn a_commit_of_two_phases_syncs_twice_and_one_of_one_phase_once() {
    for (phases, wanted) in [(Phases::One, 1), (Phases::Two, 2)] {
        let syncs = Arc::new(AtomicU32::new(0));
        let disk = Counted(InMemoryBackend::new(), Arc::clone(&syncs));
        let store = Store::open_backend(disk, &StoreOptions { phases, ..OPTIONS }).unwrap();
        let before = syncs.load(Ordering::Relaxed);
        store.commit(&[message(1, "body").3]).unwrap();
        assert_eq!(syncs.load(Ordering::Relaxed) - before, wanted, "{phases:?}");
    }
}

fn scan(store: &Store, from: &[u8], to: &[u8], limit: usize) -> (Vec<Row>, ScanEnd) {
    let (from, to) = (from.to_vec(), to.to_vec());
    let page = store.scan(&Scan { from, to, limit, contents: Contents::LeftAlone }).unwrap();
    (page.rows, page.end)
}

#[test]
fn what_was_committed_is_read_back() {
    let store = in_memory();
    let (key, label, content, change) = message(5, "hello");
    store.commit(&[change, put(Key::Member(NodeId(2)), b"two")]).unwrap();
    assert_eq!(store.read(&[(key, label)]).unwrap(), [Some(content)]);
    let (from, to) = messages(key.queue, 0);
    let (rows, end) = scan(&store, &from, &to, 10);
    assert_eq!((rows.len(), end), (1, ScanEnd::Reached));
    let record = MessageRecord::decode(&key, &rows[0].value).unwrap();
    assert_eq!(record.label, label);
    assert_eq!(rows[0].value.len(), MessageRecord::header_length(&rows[0].value));
}

#[test]
fn a_page_says_whether_more_follows() {
    let store = in_memory();
    let changes: Vec<_> = (1..=5).map(|time| message(time, "x").3).collect();
    store.commit(&changes).unwrap();
    let (from, to) = messages(queue(1), 0);
    let (rows, end) = scan(&store, &from, &to, 3);
    assert_eq!((rows.len(), end), (3, ScanEnd::More));
    let mut next = rows[2].key.clone();
    next.push(0);
    let (rows, end) = scan(&store, &next, &to, 2);
    assert_eq!((rows.len(), end), (2, ScanEnd::Reached));
    assert_eq!(scan(&store, &to, &from, 2), (vec![], ScanEnd::Reached));
}

#[test]
fn a_checked_page_names_what_is_not_whole_and_ends_before_it_is_large() {
    let store = in_memory();
    let large = "x".repeat(600 * 1024);
    let mut changes: Vec<_> = (1..=5).map(|time| message(time, &large).3).collect();
    // A content that is not the one of its label, as after rot.
    changes[1].content = Some(message(2, "other").2);
    store.commit(&changes).unwrap();
    let (from, to) = messages(queue(1), 0);
    let read = |from: &[u8], contents| {
        let (from, to) = (from.to_vec(), to.clone());
        store.scan(&Scan { from, to, limit: 10, contents }).unwrap()
    };
    assert_eq!(read(&from, Contents::LeftAlone).damaged, []);
    let mut page = read(&from, Contents::Checked);
    let (mut damaged, mut rows, mut pages) = (Vec::new(), Vec::new(), 1);
    loop {
        damaged.append(&mut page.damaged);
        rows.append(&mut page.rows);
        if page.end == ScanEnd::Reached {
            break;
        }
        let next = [&rows.last().expect("a page has a row").key[..], &[0]].concat();
        (page, pages) = (read(&next, Contents::Checked), pages + 1);
    }
    assert_eq!(damaged, [message(2, "other").0]);
    assert_eq!((rows.len(), pages), (5, 2));
}

#[test]
fn all_rows_come_in_key_order_with_the_id_of_the_store() {
    let store = in_memory();
    store
        .commit(&[message(9, "b").3, message(3, "a").3, put(Key::Meta(meta::BOOT), b"1")])
        .unwrap();
    let keys: Vec<_> = store.read_all(|rows| rows.map(|row| row.key).collect()).unwrap();
    assert_eq!(keys.len(), 4);
    assert!(keys.is_sorted());
    assert!(keys.contains(&Key::Meta(meta::STORE).encode()));
}

#[test]
fn a_range_is_deleted_and_nothing_beside_it() {
    let store = in_memory();
    let other = put(Key::Queue(queue(1)), b"entry");
    store.commit(&[message(1, "a").3, message(2, "b").3, other]).unwrap();
    let gone = rows_of_queue(queue(1))
        .into_iter()
        .map(|(from, to)| Change { write: Write::DeleteRange { from, to }, content: None });
    store.commit(&gone.collect::<Vec<_>>()).unwrap();
    let rows = store.read_all(|rows| rows.count()).unwrap();
    assert_eq!(rows, 2, "the entry of the queue and the id of the store");
}

#[test]
fn a_message_keeps_its_content_when_only_its_header_changes() {
    let store = in_memory();
    let (key, label, content, change) = message(5, "hello");
    store.commit(&[change]).unwrap();
    let record = MessageRecord { label, accepted: key.stamp, holders: vec![NodeId(1), NodeId(2)] };
    let write = Write::PutMessage { key, header: record.encode(&key), label };
    store.commit(&[Change { write, content: None }]).unwrap();
    assert_eq!(store.read(&[(key, label)]).unwrap(), [Some(content)]);
}

#[test]
fn a_new_header_is_put_before_a_stored_content_only() {
    let store = in_memory();
    let (key, label, content, change) = message(5, "hello");
    let (absent, absent_label, ..) = message(6, "not here");
    store.commit(&[change]).unwrap();
    let holders = vec![NodeId(1), NodeId(2), NodeId(3)];
    let headers = [(key, label), (absent, absent_label)].map(|(key, label)| {
        let record = MessageRecord { label, accepted: key.stamp, holders: holders.clone() };
        Change { write: Write::PutHeader { key, header: record.encode(&key) }, content: None }
    });
    store.commit(&headers).unwrap();
    assert_eq!(store.read(&[(key, label)]).unwrap(), [Some(content)]);
    let (from, to) = messages(key.queue, 0);
    let (rows, _) = scan(&store, &from, &to, 10);
    assert_eq!(rows.len(), 1);
    assert_eq!(MessageRecord::decode(&key, &rows[0].value).unwrap().holders, holders);
}

#[test]
fn a_message_without_content_is_not_written() {
    let store = in_memory();
    let (_, _, _, change) = message(5, "hello");
    let refused = store.commit(&[Change { content: None, ..change }]);
    assert!(matches!(refused, Err(StoreError::NoContent(_))));
    assert_eq!(store.read_all(|rows| rows.count()).unwrap(), 1, "only the id");
}

#[test]
fn a_message_that_is_another_or_missing_is_not_handed_out() {
    let store = in_memory();
    let (key, label, _, change) = message(5, "hello");
    store.commit(&[change]).unwrap();
    let (other, other_label, ..) = message(6, "other");
    assert_eq!(store.read(&[(other, other_label), (key, other_label)]).unwrap(), [None, None]);
    assert!(store.read(&[(key, label)]).unwrap()[0].is_some());
}

#[test]
fn a_store_is_found_again_under_the_same_id() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("data");
    let (key, label, content, change) = message(5, "hello");
    let store = Store::open(&dir, &OPTIONS).unwrap();
    let id = store.id();
    store.commit(&[change]).unwrap();
    assert!(store.bytes() > 0);
    assert!(matches!(Store::open(&dir, &OPTIONS), Err(StoreError::InUse)));
    store.close().unwrap();
    Store::forget_pages(&dir);
    let store = Store::open(&dir, &OPTIONS).unwrap();
    assert_eq!(store.id(), id);
    assert_eq!(store.read(&[(key, label)]).unwrap(), [Some(content)]);
}

#[test]
fn a_store_that_vanished_or_was_emptied_is_not_taken_for_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path(), &OPTIONS).unwrap().close().unwrap();
    let path = dir.path().join("store.redb");
    let kept = dir.path().join("kept");
    fs::rename(&path, &kept).unwrap();
    assert!(matches!(Store::open(dir.path(), &OPTIONS), Err(StoreError::Missing(_))));
    Database::create(&path).unwrap().close().unwrap();
    assert!(matches!(Store::open(dir.path(), &OPTIONS), Err(StoreError::Emptied(_))));
    fs::remove_file(&path).unwrap();
    let other = tempfile::tempdir().unwrap();
    Store::open(other.path(), &OPTIONS).unwrap().close().unwrap();
    fs::copy(other.path().join("store.redb"), &path).unwrap();
    assert!(matches!(Store::open(dir.path(), &OPTIONS), Err(StoreError::OtherStore(_))));
    fs::rename(&kept, &path).unwrap();
    assert!(Store::open(dir.path(), &OPTIONS).is_ok());
}

#[test]
fn a_store_whose_sentinel_was_not_written_yet_gets_it() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path(), &OPTIONS).unwrap().close().unwrap();
    let sentinel = dir.path().join("store.id");
    let text = fs::read_to_string(&sentinel).unwrap();
    fs::remove_file(&sentinel).unwrap();
    Store::open(dir.path(), &OPTIONS).unwrap().close().unwrap();
    assert_eq!(fs::read_to_string(&sentinel).unwrap(), text);
}

/// Flips a bit at the first place in the file where `needle` begins, `at` bytes further on.
fn flip(path: &std::path::Path, needle: &[u8], at: usize) {
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    // Pages of older commits stay in the file, so every occurrence is damaged.
    let places = bytes.windows(needle.len()).enumerate().filter(|(_, window)| *window == needle);
    let places: Vec<usize> = places.map(|(place, _)| place + at).collect();
    assert!(!places.is_empty());
    for place in places {
        file.seek(SeekFrom::Start(place as u64)).unwrap();
        file.write_all(&[bytes[place] ^ 4]).unwrap();
    }
    file.sync_all().unwrap();
}

#[test]
fn a_flipped_bit_of_content_or_header_is_found_and_the_rest_is_served() {
    for damage in ["content", "header"] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &OPTIONS).unwrap();
        let (key, label, _, bad) = message(5, "a body that rots");
        let Write::PutMessage { header, .. } = bad.write.clone() else { unreachable!() };
        let (good_key, good_label, good_content, good) = message(6, "a body that stays");
        store.commit(&[bad, good]).unwrap();
        store.close().unwrap();
        let path = dir.path().join("store.redb");
        match damage {
            "content" => flip(&path, b"a body that rots", 3),
            _ => flip(&path, &header, 20),
        }
        let store = Store::open(dir.path(), &OPTIONS).unwrap();
        let read = store.read(&[(key, label), (good_key, good_label)]).unwrap();
        assert_eq!(read, [None, Some(good_content)], "{damage}");
    }
}

#[test]
fn threads_answer_in_order_and_give_the_store_back() {
    let (events, mut heard) = unbounded_channel();
    let threads = Threads::<u32>::start(in_memory(), &events).unwrap();
    let (key, label, content, change) = message(5, "hello");
    threads.commit(vec![change]);
    assert!(matches!(heard.blocking_recv(), Some(ThreadsEvent::Committed { .. })));
    let (lost, lost_label, ..) = message(6, "never stored");
    let contents = vec![Content::Stored(key, label), Content::Stored(lost, lost_label)];
    threads.read(Wanted { word: 1, since: Instant::now(), contents });
    let (from, to) = messages(key.queue, 0);
    let contents = Contents::LeftAlone;
    threads.load(LoadId(3), Scan { from, to, limit: 10, contents });
    let Some(ThreadsEvent::Read(Wanted { word: 1, contents, .. })) = heard.blocking_recv() else {
        panic!("the read comes first");
    };
    assert!(matches!(&contents[0], Content::Here(bytes) if *bytes == content));
    assert!(matches!(&contents[1], Content::Lost(at) if *at == lost));
    assert!(matches!(
        heard.blocking_recv(),
        Some(ThreadsEvent::Loaded { load: LoadId(3), page: Page { end: ScanEnd::Reached, .. } })
    ));
    threads.close().unwrap();
}

#[test]
fn a_panic_in_the_store_is_an_error() {
    let error = supervised::<()>(|| panic!("page {}", 7)).unwrap_err();
    assert!(matches!(error, StoreError::Panicked(text) if text == "page 7"));
}

/// One old message stays while others come and go through the store, several hundred at a time.
#[test]
fn the_file_follows_what_is_stored_and_not_what_went_through() {
    const LIVE: u64 = 2000;
    const TURNS: u64 = 150;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &OPTIONS).unwrap();
    let path = store.path.clone().unwrap();
    let length = || fs::metadata(&path).unwrap().len();
    let body = "x".repeat(900);
    let (old, label, content, change) = message(1, &body);
    store.commit(&[change]).unwrap();
    let window = LIVE / 4;
    let mut first_length = 0;
    for turn in 0..TURNS {
        let at = 10 + turn * window;
        let mut changes: Vec<_> = (at..at + window).map(|time| message(time, &body).3).collect();
        let done = at.saturating_sub(LIVE).max(10);
        changes.extend((done..done + window).filter(|time| *time < at).map(|time| Change {
            write: Write::Delete { key: message(time, "").0.encode() },
            content: None,
        }));
        store.commit(&changes).unwrap();
        if turn == 20 {
            first_length = length();
        }
    }
    let live = LIVE * 1024;
    println!("live about {live}, after 20 turns {first_length}, after {TURNS} {}", length());
    assert!(length() <= 2 * first_length, "F22: it grew to {}", length());
    assert!(length() <= 8 * live, "F21, F22: {} bytes for {live}", length());
    assert_eq!(store.read(&[(old, label)]).unwrap(), [Some(content)]);
}

#[test]
fn what_was_deleted_is_spare_though_the_file_is_no_shorter() {
    const COUNT: u64 = 2000;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &OPTIONS).unwrap();
    assert_eq!(store.spare_bytes(), 0, "nothing is known yet");
    store.read_all(|rows| rows.count()).unwrap();
    let body = |number: u64| "x".repeat(usize::try_from(number % 8 * 2000).unwrap());
    let all: Vec<_> = (1..=COUNT).map(|number| message(number, &body(number))).collect();
    for group in all.chunks(50) {
        store.commit(&group.iter().map(|(.., put)| put.clone()).collect::<Vec<_>>()).unwrap();
    }
    let (length, written) = (store.bytes(), written(&store));
    assert!(store.spare_bytes() < written / 4, "{} of {written}", store.spare_bytes());
    for group in all[..all.len() * 9 / 10].chunks(50) {
        let delete = |key: &MessageKey| Write::Delete { key: key.encode() };
        let changes = group.iter().map(|(key, ..)| Change { write: delete(key), content: None });
        store.commit(&changes.collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(store.bytes(), length, "the file is shorter: there is nothing to show here");
    let (spare, taken) = (store.spare_bytes(), taken(&store));
    assert!(spare > written * 8 / 10, "{spare} of {written}");
    assert!((spare + taken).abs_diff(written) < written / 50, "{spare} and {taken} of {written}");

    let used = self::written(&store) - spare;
    store.close().unwrap();
    let store = Store::open(dir.path(), &OPTIONS).unwrap();
    store.read_all(|rows| rows.count()).unwrap();
    assert_eq!(self::written(&store) - store.spare_bytes(), used, "counted anew it is the same");
}

/// Bytes of the file that were ever written.
fn written(store: &Store) -> u64 {
    store.file().unwrap().blocks() * BLOCK
}

/// Bytes of the pages that redb has in use.
fn taken(store: &Store) -> u64 {
    let transaction = store.database.begin_write().unwrap();
    let stats = transaction.stats().unwrap();
    transaction.abort().unwrap();
    stats.allocated_pages() * u64::try_from(stats.page_size()).unwrap()
}
