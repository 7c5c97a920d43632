//! The Rust client of Gaggle, a leaderless, durable message queue.
//!
//! ```no_run
//! # async fn tour() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use gaggle_client::Client;
//!
//! let url = "gaggle://n1:7400,n2:7400?ca=ca.pem&cert=me.pem&key=me.key";
//! let client = Client::connect(url).await?;
//! let orders = client.queue("orders")?;
//! orders.send("one flat white").await?; // Confirmed: enough nodes have it on disk.
//!
//! for delivery in orders.receive(10, Duration::from_secs(20)).await? {
//!     println!("{}", String::from_utf8_lossy(delivery.body()));
//!     delivery.delete().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Sending
//!
//! A send is a builder that is awaited. Messages with the same ordering key go to the same
//! partition of the queue, in order. What was confirmed is on the disks of as many nodes as the
//! queue asks for; the confirm says how many, and where the message stands in the order of
//! everything.
//!
//! ```no_run
//! # async fn tour(orders: gaggle_client::Queue) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! let confirmed = orders
//!     .send("one flat white")
//!     .key("table-7")
//!     .attribute("waiter", "Ada")
//!     .delay(Duration::from_secs(60))
//!     .within(Duration::from_secs(5))
//!     .await?;
//! println!("{} copies, stamp {}", confirmed.copies, confirmed.stamp);
//! # Ok(())
//! # }
//! ```
//!
//! Many sends at once are a [`Producer`]'s work: it returns as soon as a message is on its way,
//! and waits when too many are.
//!
//! ```no_run
//! # async fn tour(orders: gaggle_client::Queue) -> Result<(), Box<dyn std::error::Error>> {
//! let producer = orders.producer();
//! let first = producer.send("one").await?;
//! let second = producer.send("two").await?;
//! first.await?;
//! second.await?;
//! let results = producer.send_all(["three", "four"]).await;
//! assert!(results.iter().all(Result::is_ok));
//! # Ok(())
//! # }
//! ```
//!
//! # When a send fails
//!
//! The client tries again by itself, at other nodes, with the same id, so that a message is
//! stored once however often it is sent. What is left after the deadline has one of three
//! outcomes, and `Unknown` is its own: the message may be there.
//!
//! ```no_run
//! # async fn tour(orders: gaggle_client::Queue) {
//! use gaggle_client::Outcome;
//!
//! if let Err(error) = orders.send("one flat white").await {
//!     match error.outcome() {
//!         Outcome::NotDone => println!("not sent: {error}"),
//!         Outcome::Unknown => println!("perhaps sent: {error}"),
//!         Outcome::Done => println!("sent after all"),
//!     }
//! }
//! # }
//! ```
//!
//! # Receiving
//!
//! Receiving hides a message from others for the queue's visibility timeout; deleting removes it
//! for good. Deliveries come at least once, so work on a message must bear being done twice. A
//! [`Delivery`] that is dropped unsettled is released at once.
//!
//! A [`Consumer`] is a stream of deliveries that survives the node it comes from, and
//! [`Consumer::run`] the loop around it: several messages at a time, leases extended for as long
//! as the work takes.
//!
//! ```no_run
//! # async fn tour(orders: gaggle_client::Queue) -> Result<(), Box<dyn std::error::Error>> {
//! let consumer = orders.consumer().credit(32).open();
//! consumer
//!     .run(8, |received| async move {
//!         println!("{}", String::from_utf8_lossy(&received.message.body));
//!         Ok::<(), String>(()) // Deleted; an error would release it.
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The end
//!
//! [`Client::close`] waits for what is under way, stops consumers so that what nobody took goes
//! to others at once, and closes the connections. A client whose last handle is dropped does the
//! same in the background, for as long as its runtime lives.
//!
//! # Inside
//!
//! For builders: handles send commands to one task (`driver.rs`), which drives a pure state
//! machine (`gaggle-client-core`) and the connections (`link.rs`). That crate decides what is
//! batched, resent, hedged and where; this one does it.

mod arrival;
mod client;
mod clock;
mod command;
mod consumer;
mod delivery;
mod dialer;
mod driver;
mod error;
mod lease;
mod link;
mod options;
mod outgoing;
mod producer;
mod queue;
mod shelf;
pub mod tls;
mod waiters;

pub use client::{Client, Removing, SettingsChanged};
pub use consumer::{Consumer, ConsumerBuilder};
pub use delivery::{Deleted, Delivery, Received};
pub use error::{
    ConnectError, DeleteError, ExtendError, QueueError, ReceiveError, ReleaseError, SendError,
};
pub use gaggle_client_core::{ClockEstimate, Confirmed, NodeClock};
pub use gaggle_wire as wire;
pub use gaggle_wire::{
    AttributeValue, Attributes, ChangeMode, Loss, Message, MessageId, NodeId, Outcome,
    QueueDescription, QueueName, Receipt, Refusal, Retry, Settings, SettingsChange, Stamp, Status,
};
pub use lease::Lease;
pub use options::ConnectOptions;
pub use outgoing::Outgoing;
pub use producer::{Producer, Sending, Spread};
pub use queue::{Queue, SendCall};

#[cfg(test)]
mod tests;

/// The block of the README compiles as a reader would copy it.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
