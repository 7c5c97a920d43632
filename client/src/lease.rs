//! The lease of a delivery, as whoever works on it sees it: still its own, or lost.
//!
//! What this file does not do: it extends nothing; see [`Consumer::run`](crate::Consumer::run).

use tokio::sync::watch;

/// The lease of a delivery that is being worked on.
///
/// It is lost when it could not be extended in time: the message is ready again, and another
/// consumer may work on it already. Only [`Consumer::run`](crate::Consumer::run) extends leases,
/// so only there is it known; of any other delivery see
/// [`Delivery::lease_remaining`](crate::Delivery::lease_remaining).
///
/// ```no_run
/// # async fn brew() {}
/// # async fn tour(received: gaggle_client::Received) {
/// tokio::select! {
///     () = brew() => {}
///     // Somebody else may be at it already.
///     () = received.lease.lost() => println!("stopped"),
/// }
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Lease {
    /// Becomes true when it is lost; `None` where nobody extends it.
    lost: Option<watch::Receiver<bool>>,
}

impl Lease {
    /// One that is extended, and who says that it is lost.
    pub(crate) fn kept() -> (watch::Sender<bool>, Self) {
        let (teller, lost) = watch::channel(false);
        (teller, Self { lost: Some(lost) })
    }

    /// Whether it is known to be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.as_ref().is_some_and(|lost| *lost.borrow())
    }

    /// Waits until it is lost: for ever where it is not. Work that can be broken off does so then,
    /// for example by `tokio::select!`.
    pub async fn lost(&self) {
        if let Some(lost) = &self.lost
            && lost.clone().wait_for(|lost| *lost).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

impl PartialEq for Lease {
    /// Whether both are of the same delivery.
    fn eq(&self, other: &Self) -> bool {
        match (&self.lost, &other.lost) {
            (Some(one), Some(other)) => one.same_channel(other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for Lease {}
