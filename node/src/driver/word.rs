//! What is said to the outside once the writes before it are durable, and what it carries.
//!
//! What this file does not do: it sends nothing; see `voices.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use gaggle_core::envelope::{Envelope, Lane, delivery_message};
use gaggle_core::event::{ClientId, LinkId, LoadId, Missed, Reply};
use gaggle_core::ledger::MessageKey;
use gaggle_wire::{Label, Response};

use crate::store::{Content, Scan};

/// Something to be said or done after a commit.
#[derive(Debug)]
pub(crate) enum Word {
    /// To a client.
    Answer {
        /// Where to.
        reply: Reply,
        /// What.
        response: Response,
    },
    /// To another node.
    Envelope {
        /// Where to.
        link: LinkId,
        /// What.
        envelope: Envelope,
    },
    /// To the store: which rows to read.
    Load {
        /// Which question.
        load: LoadId,
        /// Where they are.
        scan: Scan,
    },
    /// To whoever stops the node.
    Drained,
    /// To whoever opens the node anew.
    Renewed,
}

/// A stream on which words keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Path {
    /// Of a client.
    Answers(ClientId, u32),
    /// To another node.
    Link(LinkId, Lane),
}

/// A word with what could be found of its contents.
#[derive(Debug)]
pub(crate) enum Complete {
    /// It may be said, with these contents behind it.
    Whole(Word, Vec<Bytes>),
    /// It cannot be said without what is lost: the session it belongs to must end.
    Broken(LinkId),
}

/// A message whose content could not be read, and the delivery that went without it.
type Lost = (MessageKey, Option<Missed>);

impl Word {
    /// The messages whose contents it carries, in order.
    pub(crate) fn messages(&self) -> Vec<(MessageKey, Label)> {
        match self {
            Self::Answer { response: Response::Deliveries { deliveries }, .. } => {
                deliveries.iter().map(delivery_message).collect()
            }
            Self::Envelope { envelope, .. } => envelope.messages(),
            Self::Answer { .. } | Self::Load { .. } | Self::Drained | Self::Renewed => Vec::new(),
        }
    }

    /// The stream it takes.
    pub(crate) fn path(&self) -> Option<Path> {
        match self {
            Self::Answer { reply, .. } => Some(Path::Answers(reply.client, reply.stream)),
            Self::Envelope { link, envelope } => Some(Path::Link(*link, envelope.lane())),
            Self::Load { .. } | Self::Drained | Self::Renewed => None,
        }
    }

    /// It waited for so long: of the leases that it tells of less is left.
    pub(crate) fn waited(&mut self, time: Duration) {
        if let Self::Answer { response: Response::Deliveries { deliveries }, .. }
        | Self::Envelope { envelope: Envelope::Grant { deliveries, .. }, .. } = self
        {
            deliveries.iter_mut().for_each(|delivery| delivery.waited(time));
        }
    }

    /// The delivery at this place of it.
    fn delivery(&self, at: usize) -> Option<Missed> {
        let (deliveries, reply) = match self {
            Self::Answer { response: Response::Deliveries { deliveries }, reply } => {
                (deliveries, Some(*reply))
            }
            Self::Envelope { envelope: Envelope::Grant { deliveries, .. }, .. } => {
                (deliveries, None)
            }
            Self::Answer { .. }
            | Self::Envelope { .. }
            | Self::Load { .. }
            | Self::Drained
            | Self::Renewed => return None,
        };
        deliveries.get(at).map(|delivery| Missed { receipt: delivery.receipt.clone(), reply })
    }

    /// Puts the contents to the word, and leaves out of it what is lost: which messages, and which
    /// deliveries. Positions in a send's copies mean something to both ends, so nothing is left out
    /// of these.
    pub(crate) fn complete(mut self, contents: Vec<Content>) -> (Complete, Vec<Lost>) {
        let mut lost = Vec::new();
        let mut gone = BTreeSet::new();
        let mut here = Vec::with_capacity(contents.len());
        for (at, content) in contents.into_iter().enumerate() {
            match content {
                Content::Here(content) => here.push(content),
                Content::Stored(key, _) | Content::Lost(key) => {
                    lost.push((key, self.delivery(at)));
                    gone.insert(at);
                }
            }
        }
        if gone.is_empty() {
            return (Complete::Whole(self, here), lost);
        }
        let left_out = match &mut self {
            Self::Answer { response: Response::Deliveries { deliveries }, .. }
            | Self::Envelope {
                envelope: Envelope::Grant { deliveries, .. } | Envelope::Peeked { deliveries, .. },
                ..
            } => {
                leave_out(deliveries, &gone);
                None
            }
            Self::Envelope { envelope: Envelope::MakeUp { items, .. }, .. } => {
                leave_out(items, &gone);
                None
            }
            Self::Envelope { link, .. } => Some(*link),
            Self::Answer { .. } | Self::Load { .. } | Self::Drained | Self::Renewed => None,
        };
        match left_out {
            None => (Complete::Whole(self, here), lost),
            Some(link) => (Complete::Broken(link), lost),
        }
    }
}

fn leave_out<T>(from: &mut Vec<T>, gone: &BTreeSet<usize>) {
    let mut at = 0;
    from.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
}

#[cfg(test)]
mod tests {
    use gaggle_wire::{DeliveryLabel, Message, NodeId, ProcessId, QueueId, Receipt, Stamp};

    use super::*;

    fn delivery(time: u64) -> (DeliveryLabel, Bytes) {
        let stamp = Stamp { time, count: 0, process: ProcessId(1) };
        let (label, content) = Message::new(format!("{time}")).pack(time, stamp, 0).unwrap();
        let receipt = Receipt {
            queue: QueueId(Stamp::ZERO),
            partition: 0,
            number: time,
            stamp,
            holders: vec![NodeId(1)],
            custodian: NodeId(1),
            boot: 1,
            delivery: 1,
        };
        (DeliveryLabel { receipt, label, accepted: stamp, lease_ms: 1, position: None }, content)
    }

    /// Three deliveries of which the second is lost.
    fn damaged() -> (Vec<DeliveryLabel>, Vec<Content>, MessageKey) {
        let three: Vec<_> = (1..=3).map(delivery).collect();
        let lost = delivery_message(&three[1].0).0;
        let contents = three.iter().enumerate().map(|(at, (_, content))| match at {
            1 => Content::Lost(lost),
            _ => Content::Here(content.clone()),
        });
        let contents = contents.collect();
        (three.into_iter().map(|(delivery, _)| delivery).collect(), contents, lost)
    }

    #[test]
    fn a_delivery_without_content_is_left_out_and_told() {
        let (deliveries, contents, lost) = damaged();
        let reply = Reply { client: ClientId(1), stream: 2, request: 3 };
        let expected = vec![deliveries[0].clone(), deliveries[2].clone()];
        let missed = Missed { receipt: deliveries[1].receipt.clone(), reply: Some(reply) };
        let word = Word::Answer { reply, response: Response::Deliveries { deliveries } };
        let (complete, told) = word.complete(contents);
        assert_eq!(told, [(lost, Some(missed))]);
        let Complete::Whole(Word::Answer { response, .. }, contents) = complete else {
            panic!("it can be said");
        };
        assert_eq!(response, Response::Deliveries { deliveries: expected });
        assert_eq!(contents, ["1", "3"]);
    }

    #[test]
    fn what_waited_for_its_commit_tells_what_is_left_of_its_leases() {
        let (mut running, mut over, mut peeked) = (delivery(1).0, delivery(2).0, delivery(3).0);
        (running.lease_ms, over.lease_ms, peeked.lease_ms) = (5000, 2000, 0);
        let deliveries = vec![running, over, peeked];
        let reply = Reply { client: ClientId(1), stream: 2, request: 3 };
        let mut word = Word::Answer { reply, response: Response::Deliveries { deliveries } };
        word.waited(Duration::from_millis(3100));
        let Word::Answer { response: Response::Deliveries { deliveries }, .. } = word else {
            panic!("it is what it was");
        };
        assert_eq!(deliveries.iter().map(|d| d.lease_ms).collect::<Vec<_>>(), [1900, 1, 0]);
    }

    #[test]
    fn copies_without_a_content_end_the_session() {
        let (deliveries, contents, lost) = damaged();
        let labels = deliveries.iter().map(|delivery| delivery.label).collect();
        let envelope = Envelope::Copy {
            batch: 1,
            queue: QueueId(Stamp::ZERO),
            partition: 0,
            accepted: Stamp::ZERO,
            holders: vec![NodeId(1)],
            attempt: gaggle_wire::Attempt::First,
            labels,
        };
        let (complete, told) = Word::Envelope { link: LinkId(4), envelope }.complete(contents);
        assert_eq!(told, [(lost, None)]);
        assert!(matches!(complete, Complete::Broken(LinkId(4))));
    }
}
