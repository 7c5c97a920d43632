//! The pure part of Gaggle's client: numbering, resend, failover, hedging, lease extension.

mod now;
mod parcel;
mod partition;

pub use now::Now;
pub use parcel::{
    Answer, Ask, Confirmed, Delivered, Failure, Parcel, Settle, Settled, Subscription, Verb,
};
pub use partition::{key_hash, partition_of};
