//! What can go wrong, one type per operation.
//!
//! Every error answers the question that matters after a failure: was it done, was it not, or is
//! that unknown ([`Outcome`]). Where a node said no, its [`Refusal`] is at hand. What this file
//! does not do: it retries nothing; whoever sees one of these errors sees the end of the retries.

use std::io;

use gaggle_client_core::Failure;
use gaggle_wire::{ClusterNameError, MessageError, Outcome, QueueNameError, Refusal};
use thiserror::Error;

use crate::tls::TlsError;

/// Why there is no connection to the cluster.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address of the cluster cannot be read.
    #[error("{url:?} is not gaggle://HOST:PORT[,...]?ca=FILE&cert=FILE&key=FILE: {why}")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The name of the cluster is none.
    #[error(transparent)]
    Cluster(#[from] ClusterNameError),
    /// The certificate, the key or the authority cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is no UDP socket to be had.
    #[error("cannot open a UDP socket: {0}")]
    Socket(#[from] io::Error),
    /// No node answered in time.
    #[error("no node of the cluster answered: {last}")]
    Unreachable {
        /// What the last attempt met.
        last: String,
    },
    /// Every node that was dialled ended the handshake for good: one side does not accept the
    /// other's certificate. Trying again does not help.
    #[error("the cluster and this client do not accept each other: {why}")]
    NotAccepted {
        /// What TLS or the node said.
        why: String,
    },
    /// A node answered, and said no.
    #[error("the cluster refuses this client: {0}")]
    Refused(Refusal),
}

impl ConnectError {
    /// Nothing was done: no connection, no effect.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::NotDone
    }

    /// What the node said, if one did.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        if let Self::Refused(refusal) = self { Some(refusal) } else { None }
    }
}

/// Why a message is not confirmed.
///
/// ```no_run
/// # async fn tour(orders: gaggle_client::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use gaggle_client::SendError;
///
/// match orders.send("one flat white").await {
///     Ok(confirmed) => println!("{} copies", confirmed.copies),
///     // It may come or not. To send it again as a new message may make two of it.
///     Err(error @ SendError::Unknown { .. }) => eprintln!("unknown: {error}"),
///     Err(error) => eprintln!("not done: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The message is beyond what any queue takes. It was not sent.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// It was not stored, for this reason.
    #[error("not sent: {0}")]
    Refused(Refusal),
    /// Its deadline passed before any node could be asked. It was not stored.
    #[error("not sent: no node could be asked in time")]
    TimedOut,
    /// Its deadline passed, and whether an attempt stored it is unknown. Sending it again as a
    /// new message may make it two.
    #[error("whether it was sent is unknown{}", reason(.last.as_ref()))]
    Unknown {
        /// The last thing that a node said of it, if one did.
        last: Option<Refusal>,
    },
    /// The client was closed before it was sent.
    #[error("not sent: the client is closed")]
    Closed,
}

/// Why there is no delivery.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// A node said no.
    #[error("cannot receive: {0}")]
    Refused(Refusal),
    /// No node answered in time; what one may have handed out goes back.
    #[error("cannot receive: no node answered in time")]
    TimedOut,
    /// The client is closed.
    #[error("cannot receive: the client is closed")]
    Closed,
}

/// Why a message is not deleted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// A node said no.
    #[error("not deleted: {0}")]
    Refused(Refusal),
    /// No node could be asked in time.
    #[error("not deleted: no node could be asked in time")]
    TimedOut,
    /// Whether it was deleted is unknown; deleting again is safe.
    #[error("whether it was deleted is unknown{}", reason(.last.as_ref()))]
    Unknown {
        /// The last thing that a node said of it, if one did.
        last: Option<Refusal>,
    },
    /// The client is closed.
    #[error("not deleted: the client is closed")]
    Closed,
}

/// Why a lease is not extended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// A node said no.
    #[error("not extended: {0}")]
    Refused(Refusal),
    /// No node could be asked in time.
    #[error("not extended: no node could be asked in time")]
    TimedOut,
    /// Whether it was extended is unknown; extending again is safe.
    #[error("whether it was extended is unknown{}", reason(.last.as_ref()))]
    Unknown {
        /// The last thing that a node said of it, if one did.
        last: Option<Refusal>,
    },
    /// The client is closed.
    #[error("not extended: the client is closed")]
    Closed,
}

/// Why a message is not given back. Its lease ends by itself.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// A node said no.
    #[error("not released: {0}")]
    Refused(Refusal),
    /// No node could be asked in time.
    #[error("not released: no node could be asked in time")]
    TimedOut,
    /// Whether it was released is unknown; releasing again is safe.
    #[error("whether it was released is unknown{}", reason(.last.as_ref()))]
    Unknown {
        /// The last thing that a node said of it, if one did.
        last: Option<Refusal>,
    },
    /// The client is closed.
    #[error("not released: the client is closed")]
    Closed,
}

/// Why a question about queues or the cluster, or a change of a queue, was not answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The name of the queue is none.
    #[error(transparent)]
    Name(#[from] QueueNameError),
    /// A node said no.
    #[error("{0}")]
    Refused(Refusal),
    /// No node could be asked in time. Nothing was done.
    #[error("no node could be asked in time")]
    TimedOut,
    /// The answer was lost; a change may have been made.
    #[error("no answer came in time; whether it was done is unknown{}", reason(.last.as_ref()))]
    Unknown {
        /// The last thing that a node said of it, if one did.
        last: Option<Refusal>,
    },
    /// The client is closed.
    #[error("the client is closed")]
    Closed,
}

macro_rules! outcome_and_refusal {
    ($($error:ident)*) => {$(
        impl $error {
            /// Whether it was done after all.
            #[must_use]
            pub fn outcome(&self) -> Outcome {
                match self {
                    Self::Unknown { .. } => Outcome::Unknown,
                    Self::Refused(refusal) => refusal.outcome(),
                    _ => Outcome::NotDone,
                }
            }

            /// What a node said, if one did.
            #[must_use]
            pub fn refusal(&self) -> Option<&Refusal> {
                match self {
                    Self::Refused(refusal) => Some(refusal),
                    Self::Unknown { last } => last.as_ref(),
                    _ => None,
                }
            }
        }
    )*};
}

outcome_and_refusal!(SendError DeleteError ExtendError ReleaseError QueueError);

impl ReceiveError {
    /// Nothing was delivered; what a node may have handed out goes back by itself.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::NotDone
    }

    /// What a node said, if one did.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        if let Self::Refused(refusal) = self { Some(refusal) } else { None }
    }
}

fn reason(last: Option<&Refusal>) -> String {
    last.map_or_else(String::new, |refusal| format!(" (last answer: {refusal})"))
}

macro_rules! from_failure {
    ($($error:ident)*) => {$(
        impl From<Failure> for $error {
            fn from(failure: Failure) -> Self {
                match failure {
                    Failure::Refused(refusal) => Self::Refused(refusal),
                    Failure::TimedOut => Self::TimedOut,
                    Failure::Unknown { last } => Self::Unknown { last },
                    Failure::Closed => Self::Closed,
                }
            }
        }
    )*};
}

from_failure!(SendError DeleteError ExtendError ReleaseError QueueError);

impl From<Failure> for ReceiveError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) | Failure::Unknown { last: Some(refusal) } => {
                Self::Refused(refusal)
            }
            Failure::TimedOut | Failure::Unknown { last: None } => Self::TimedOut,
            Failure::Closed => Self::Closed,
        }
    }
}
