//! What may be said at Gaggle's door.
//!
//! This crate is the language between clients and nodes, and the vocabulary that nodes share
//! among themselves: names, stamps, messages, receipts, settings, requests, answers, refusals,
//! and the frames that carry them. It has no IO and no async, so that both ends and the
//! simulator use the same words.
//!
//! Rule of versions: what is on the wire or on a disk is changed only together with its version
//! number; the tests hold the golden bytes of every frame. What comes in is parsed into a type
//! of this crate or refused, never trusted.
//!
//! Reading order: [`Stamp`], [`Message`], [`Request`], [`Response`], [`Refusal`], [`frame`].

pub mod frame;
#[cfg(test)]
mod golden;
mod identity;
mod message;
mod name;
mod partition;
mod receipt;
mod refusal;
mod request;
mod response;
mod settings;
mod skew;
mod stamp;

pub use identity::{
    ClientName, ClientNameError, ClusterName, ClusterNameError, Identity, IdentityError, Role,
};
pub use message::{
    AttributeValue, Attributes, BODY_LENGTH_MAX, KEY_LENGTH_MAX, Label, Message, MessageError,
    MessageId,
};
pub use name::{NodeId, NodeIdError, ProcessId, QueueName, QueueNameError};
pub use partition::{key_hash, partition_of};
pub use receipt::{QueueId, Receipt, ReceiptError};
pub use refusal::{Outcome, Refusal, Retry};
pub use request::{
    Attempt, ChangeMode, Loss, RECEIVE_MAX, Request, RequestFrame, SEND_MAX, VERSION,
};
pub use response::{
    ClusterMember, DeleteResult, DeliveryLabel, LIST_MAX, MemberStatus, NodeReport, Position,
    QueueCounts, QueueDescription, QueueStatus, Response, ResponseFrame, SendException, SentBatch,
    Standing, Status, Welcome,
};
pub use settings::{
    DELAY_MAX_MS, LateBy, Order, PARTITIONS_MAX, REPLICAS_MAX, RETENTION_MAX_MS, RETENTION_MIN_MS,
    STRICT_PARTITIONS_MAX, Settings, SettingsChange, VISIBILITY_MAX_MS, WINDOW_MAX_MS,
};
pub use skew::ArrivalSkew;
pub use stamp::Stamp;
