//! A message on its way out: what it says, and how it wants to be sent.
//!
//! What this file does not do: it sends nothing; see [`Queue`](crate::Queue) and
//! [`Producer`](crate::Producer).

use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::{AttributeValue, Label, Message, MessageError, ProcessId, Stamp};

/// A message and how it is to be sent. Bodies convert into it, so most code never names it.
///
/// ```no_run
/// # async fn tour(producer: gaggle_client::Producer) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use gaggle_client::Outgoing;
///
/// let bell = Outgoing::new("ring the bell").key("bar").delay(Duration::from_secs(60));
/// producer.send(bell).await?.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    message: Message,
    delay: Duration,
    within: Option<Duration>,
    /// Kept, so that a chain of calls need not be broken by `?`; reported by the send.
    wrong: Option<MessageError>,
}

impl Outgoing {
    /// A message with this body.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { message: Message::new(body), ..Self::default() }
    }

    /// Sets the ordering key: messages of one key go to one partition, in order.
    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.message.key = Some(key.into());
        self
    }

    /// Sets an attribute. One that is refused is reported when the message is sent.
    #[must_use]
    pub fn attribute(mut self, key: impl Into<String>, value: impl Into<AttributeValue>) -> Self {
        if let Err(error) = self.message.attributes.insert(key, value) {
            self.wrong.get_or_insert(error);
        }
        self
    }

    /// Keeps the message from being handed out for so long after it was accepted.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// How long the send may take, instead of what the client's options say; 105 s at most.
    #[must_use]
    pub fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.within
    }

    pub(crate) fn ordering_key(&self) -> Option<&Bytes> {
        self.message.key.as_ref()
    }

    /// The content, and a label that lacks nothing but number and stamp.
    pub(crate) fn pack(&self) -> Result<(Label, Bytes), MessageError> {
        if let Some(error) = &self.wrong {
            return Err(error.clone());
        }
        let delay_ms = u64::try_from(self.delay.as_millis()).unwrap_or(u64::MAX);
        self.message.pack(0, NOT_YET, delay_ms)
    }
}

/// The stamp is given by the clock of the client, in the order of the sends.
const NOT_YET: Stamp = Stamp { time: 0, count: 0, process: ProcessId(0) };

impl From<Message> for Outgoing {
    fn from(message: Message) -> Self {
        Self { message, ..Self::default() }
    }
}

macro_rules! from_bodies {
    ($($body:ty)*) => {$(
        impl From<$body> for Outgoing {
            fn from(body: $body) -> Self {
                Self::new(body)
            }
        }
    )*};
}

from_bodies!(Bytes Vec<u8> String &'static str &'static [u8]);
