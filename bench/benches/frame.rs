//! What it costs to put a batch of messages into a frame and to take it out again.
//!
//! Sixty-four messages are what a busy producer sends at once. What this bench does not measure:
//! the network and the disk.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use gaggle_wire::frame::{FRAME_LENGTH_MAX, Splitter, encode};
use gaggle_wire::{Attempt, Label, Message, ProcessId, QueueId, Request, RequestFrame, Stamp};

const MESSAGES: u64 = 64;

fn batch(size: usize) -> (RequestFrame, Vec<Bytes>) {
    let process = ProcessId(7);
    let message = Message::new(vec![b'x'; size]);
    let packed: Vec<(Label, Bytes)> = (1..=MESSAGES)
        .map(|number| {
            let stamp = Stamp { time: 1_800_000_000_000_000_000 + number, count: 0, process };
            message.pack(number, stamp, 0).expect("the message is within all limits")
        })
        .collect();
    let (labels, contents) = packed.into_iter().unzip();
    let body = Request::Send {
        queue: QueueId(Stamp { time: 1, count: 0, process }),
        partition: 0,
        attempt: Attempt::First,
        within_ms: 30_000,
        labels,
    };
    (RequestFrame { request: 1, body }, contents)
}

fn frames(criterion: &mut Criterion) {
    for size in [100, 1024] {
        let (header, contents) = batch(size);
        let mut group = criterion.benchmark_group(format!("send of {MESSAGES} x {size} B"));
        group.throughput(Throughput::Elements(MESSAGES));
        group.bench_function("encode", |bencher| {
            bencher.iter(|| encode(black_box(&header), black_box(&contents)));
        });
        let bytes = encode(&header, &contents);
        group.bench_function("split and decode", |bencher| {
            bencher.iter_batched(
                || Splitter::new(FRAME_LENGTH_MAX),
                |mut splitter| {
                    splitter.push(&bytes);
                    let frame = splitter.next_frame().expect("it is whole").expect("it is here");
                    let decoded: RequestFrame = frame.header().expect("it was encoded");
                    let Request::Send { labels, .. } = &decoded.body else { unreachable!() };
                    black_box(frame.contents(labels).expect("lengths match"));
                },
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, frames);
criterion_main!(benches);
