//! What foca asks for during one call, kept in order.
//!
//! Order matters between the kinds: timers that foca submitted before it took a new identity are
//! void, those after are not.

use std::time::Duration;

use bytes::Bytes;
use foca::{Notification, OwnedNotification, Runtime, Timer};

use super::identity::Identity;

/// One wish or piece of news of foca.
#[derive(Debug)]
pub(super) enum News {
    Send(Identity, Bytes),
    Later(Timer<Identity>, Duration),
    Happened(OwnedNotification<Identity>),
}

/// All of one call.
#[derive(Debug, Default)]
pub(super) struct Told(pub(super) Vec<News>);

impl Runtime<Identity> for Told {
    fn notify(&mut self, notification: Notification<'_, Identity>) {
        self.0.push(News::Happened(notification.to_owned()));
    }

    fn send_to(&mut self, to: Identity, data: &[u8]) {
        self.0.push(News::Send(to, Bytes::copy_from_slice(data)));
    }

    fn submit_after(&mut self, event: Timer<Identity>, after: Duration) {
        self.0.push(News::Later(event, after));
    }
}
