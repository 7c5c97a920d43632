//! From a frame to a request: what a client may say, checked before anybody acts on it.
//!
//! Bytes that are no request end the connection. A request that is well-formed but breaks a
//! limit, or whose contents are damaged, is refused whole, and nothing of it is done.
//!
//! What this file does not do: whether queue, stamp or receipt are right is the core's to say.

use bytes::Bytes;
use gaggle_wire::frame::Frame;
use gaggle_wire::{
    BODY_LENGTH_MAX, Label, RECEIVE_MAX, Receipt, Refusal, Request, RequestFrame, SEND_MAX, Stamp,
};

use super::close::Close;
use crate::driver::input::Asked;

/// Parses a frame that came after the hello.
pub(crate) fn parse(frame: Frame) -> Result<Asked, Close> {
    if frame.header_length() > HEADER_LENGTH_MAX {
        return Err(Close::BadFrame);
    }
    let RequestFrame { request, body } = frame.header().map_err(|_| Close::BadFrame)?;
    if request == 0 || matches!(body, Request::Hello { .. }) {
        return Err(Close::BadFrame);
    }
    let contents = match &body {
        Request::Send { labels, .. } => frame.contents(labels).map_err(|_| Close::BadFrame)?,
        _ if frame.has_contents() => return Err(Close::BadFrame),
        _ => Vec::new(),
    };
    let what = check(&body, &contents).map(|()| (body, contents));
    Ok(Asked { request, what })
}

fn check(request: &Request, contents: &[Bytes]) -> Result<(), Refusal> {
    match request {
        Request::Send { labels, .. } => check_send(labels, contents),
        Request::Delete { receipts }
        | Request::Extend { receipts, .. }
        | Request::Release { receipts, .. } => check_receipts(receipts),
        Request::Receive { max, .. } | Request::Peek { max, .. } => {
            let fits = (1..=RECEIVE_MAX).contains(&(*max as usize));
            if fits { Ok(()) } else { Err(bad("between 1 and 1000 messages can be asked for")) }
        }
        Request::Hello { .. }
        | Request::CreateQueue { .. }
        | Request::SetQueue { .. }
        | Request::ListQueues { .. }
        | Request::DescribeQueue { .. }
        | Request::DeleteQueue { .. }
        | Request::PurgeQueue { .. }
        | Request::Consume { .. }
        | Request::Credit { .. }
        | Request::StopConsume { .. }
        | Request::RemoveNode { .. }
        | Request::KeepNode { .. }
        | Request::Status { .. } => Ok(()),
    }
}

fn check_send(labels: &[Label], contents: &[Bytes]) -> Result<(), Refusal> {
    let Some(first) = labels.first() else { return Err(bad("a send has at least one message")) };
    if labels.len() > SEND_MAX {
        return Err(bad("a send has at most 4096 messages"));
    }
    let process = first.stamp.process;
    if process.0 == 0 || labels.iter().any(|label| label.stamp.process != process) {
        return Err(bad("the messages of a send are of one process"));
    }
    if first.number == 0 || !labels.is_sorted_by(|a, b| a.number < b.number) {
        return Err(bad("the messages of a send are numbered from 1 and rising"));
    }
    if labels.iter().any(|label| label.stamp.count > Stamp::COUNT_MAX) {
        return Err(bad("a stamp's count is beyond what a clock makes"));
    }
    if labels.iter().any(|label| label.body_length as usize > BODY_LENGTH_MAX) {
        return Err(bad("a body has at most 16 MiB"));
    }
    let whole = labels.iter().zip(contents).all(|(label, content)| label.matches(content));
    if whole { Ok(()) } else { Err(Refusal::ContentDamaged) }
}

fn check_receipts(receipts: &[Receipt]) -> Result<(), Refusal> {
    if receipts.is_empty() || receipts.len() > RECEIVE_MAX {
        return Err(bad("between 1 and 1000 receipts can be given"));
    }
    if receipts.iter().any(|receipt| receipt.holders.len() > Receipt::HOLDERS_MAX) {
        return Err(bad("a receipt names at most 16 holders"));
    }
    Ok(())
}

fn bad(why: &str) -> Refusal {
    Refusal::BadRequest { why: why.to_owned() }
}

/// Room for 4096 labels or 1000 receipts of any values: what is decoded takes several times as
/// much memory as its bytes, so it has a limit of its own.
const HEADER_LENGTH_MAX: usize = 512 * 1024;

#[cfg(test)]
mod tests {
    use gaggle_wire::frame::{self, Splitter};
    use gaggle_wire::{Attempt, Message, ProcessId, QueueId, QueueName};

    use super::*;

    const STAMP: Stamp = Stamp { time: 1, count: 0, process: ProcessId(1) };

    fn parsed(request: u64, body: Request, contents: &[Bytes]) -> Result<Asked, Close> {
        let mut splitter = Splitter::new(frame::FRAME_LENGTH_MAX);
        splitter.push(&frame::encode(&RequestFrame { request, body }, contents));
        parse(splitter.next_frame().unwrap().unwrap())
    }

    fn send(numbers: &[u64]) -> (Request, Vec<Bytes>) {
        let pack = |number: &u64| Message::new("body").pack(*number, STAMP, 0).unwrap();
        let (labels, contents) = numbers.iter().map(pack).unzip();
        let send = Request::Send {
            queue: QueueId(STAMP),
            partition: 0,
            attempt: Attempt::First,
            within_ms: 1000,
            labels,
        };
        (send, contents)
    }

    fn refusal(body: Request, contents: &[Bytes]) -> Refusal {
        parsed(1, body, contents).unwrap().what.unwrap_err()
    }

    #[test]
    fn a_send_comes_with_its_contents() {
        let (send, contents) = send(&[1, 2]);
        let asked = parsed(7, send.clone(), &contents).unwrap();
        assert_eq!(asked.request, 7);
        assert_eq!(asked.what, Ok((send, contents)));
    }

    #[test]
    fn a_damaged_content_refuses_the_whole_send() {
        let (send, mut contents) = send(&[1, 2]);
        contents[1] = Bytes::from_static(b"BODY");
        assert_eq!(refusal(send, &contents), Refusal::ContentDamaged);
    }

    #[test]
    fn a_send_that_breaks_a_rule_is_refused() {
        for numbers in [&[][..], &[0], &[2, 1], &[1, 1]] {
            let (send, contents) = send(numbers);
            assert!(matches!(refusal(send, &contents), Refusal::BadRequest { .. }), "{numbers:?}");
        }
        let many: Vec<u64> = (1..=SEND_MAX as u64 + 1).collect();
        let (send, contents) = send(&many);
        assert!(matches!(refusal(send, &contents), Refusal::BadRequest { .. }));
    }

    #[test]
    fn numbers_of_messages_and_receipts_have_limits() {
        let queue = QueueName::parse("q").unwrap();
        for max in [0, 1001] {
            let peek = Request::Peek { queue: queue.clone(), max };
            assert!(matches!(refusal(peek, &[]), Refusal::BadRequest { .. }));
        }
        let none = Request::Delete { receipts: Vec::new() };
        assert!(matches!(refusal(none, &[]), Refusal::BadRequest { .. }));
    }

    #[test]
    fn what_is_no_request_ends_the_connection() {
        let hello = Request::Hello { version: 1, process: ProcessId(1) };
        let status = Request::Status { prefix: String::new(), after: None };
        assert_eq!(parsed(1, hello, &[]).unwrap_err(), Close::BadFrame);
        assert_eq!(parsed(0, status.clone(), &[]).unwrap_err(), Close::BadFrame);
        let stray = [Bytes::from_static(b"x")];
        assert_eq!(parsed(1, status, &stray).unwrap_err(), Close::BadFrame);
        let (send, contents) = send(&[1]);
        assert_eq!(parsed(1, send, &contents[1..]).unwrap_err(), Close::BadFrame);
    }
}
