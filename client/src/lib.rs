//! The Rust client of Gaggle, a leaderless message queue.

mod client;
mod clock;
mod command;
mod consumer;
mod delivery;
mod dialer;
mod error;
mod link;
mod options;
mod outgoing;
mod owner;
mod producer;
mod queue;
mod shelf;
pub mod tls;
mod waiters;

pub use client::{Client, SettingsChanged};
pub use consumer::{Consumer, ConsumerBuilder};
pub use delivery::{Deleted, Delivery, Received};
pub use error::{
    ConnectError, DeleteError, ExtendError, QueueError, ReceiveError, ReleaseError, SendError,
};
pub use gaggle_client_core::Confirmed;
pub use gaggle_wire as wire;
pub use gaggle_wire::{
    AttributeValue, Attributes, ChangeMode, Message, MessageId, Outcome, QueueDescription,
    QueueName, Receipt, Refusal, Retry, Settings, SettingsChange, Stamp, Status,
};
pub use options::ConnectOptions;
pub use outgoing::Outgoing;
pub use producer::{Producer, Sending};
pub use queue::{Queue, SendCall};

#[cfg(test)]
mod tests;
