//! The socket of a node, which is bound again when it fails.
//!
//! A socket whose every read fails would leave the node deaf, or spinning: quinn's own reads again
//! until it succeeds. Here a read that fails twice in a row gives the socket up and binds another
//! one at the same address, until that succeeds or has failed for too long. Connections live on:
//! what was sent meanwhile counts as lost on its way and is sent again. Only when no socket can be
//! had does quinn see an error, and the node ends.
//!
//! Invariant: at most one socket is open, so that no other process can have the port beside us.
//! What this file does not do: it parses nothing; whatever is read goes to quinn.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use super::transport::{Bound, bind};

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Socket {
    address: SocketAddr,
    present: RwLock<Option<Arc<Open>>>,
    /// Reads that failed since the last one that did not.
    failures: AtomicU32,
    mending: Mutex<Option<Mending>>,
    given_up: Notify,
    receive_segments: usize,
    patience: Duration,
}

/// A bound socket.
#[derive(Debug)]
struct Open {
    io: UdpSocket,
    state: UdpSocketState,
    #[cfg(test)]
    broken: std::sync::atomic::AtomicBool,
}

/// No socket is open: since when, and when to try again.
#[derive(Debug)]
struct Mending {
    since: Instant,
    next: Pin<Box<Sleep>>,
}

impl Socket {
    /// Takes a bound socket over.
    pub(crate) fn new(bound: std::net::UdpSocket, address: SocketAddr) -> io::Result<Self> {
        let open = Open::new(bound)?;
        Ok(Self {
            address,
            receive_segments: open.state.gro_segments(),
            present: RwLock::new(Some(Arc::new(open))),
            failures: AtomicU32::new(0),
            mending: Mutex::new(None),
            given_up: Notify::new(),
            patience: PATIENCE,
        })
    }

    fn present(&self) -> Option<Arc<Open>> {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn mending(&self) -> MutexGuard<'_, Option<Mending>> {
        self.mending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A read failed: once may be chance.
    fn failed(&self, error: &io::Error) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 < FAILURES_MAX {
            return;
        }
        tracing::error!(%error, address = %self.address, "the socket failed; binding it again");
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = None;
        // Whoever waits to write holds the old one open, and with it the port.
        self.given_up.notify_waiters();
        let next = Box::pin(sleep(Duration::ZERO));
        *self.mending() = Some(Mending { since: Instant::now(), next });
    }

    /// Binds again once it is time to; an error means that it is of no use any more.
    fn poll_mended(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut place = self.mending();
        let Some(mending) = place.as_mut() else { return Poll::Ready(Ok(())) };
        loop {
            ready!(mending.next.as_mut().poll(cx));
            let bound = bind(self.address).map_err(io::Error::other);
            match bound.and_then(|Bound { socket, .. }| Open::new(socket)) {
                Ok(open) => {
                    *self.present.write().unwrap_or_else(PoisonError::into_inner) =
                        Some(Arc::new(open));
                    self.failures.store(0, Ordering::Relaxed);
                    *place = None;
                    tracing::info!(address = %self.address, "the socket is bound again");
                    return Poll::Ready(Ok(()));
                }
                Err(error) if mending.since.elapsed() > self.patience => {
                    return Poll::Ready(Err(error));
                }
                Err(error) => {
                    tracing::warn!(%error, "the socket cannot be bound again yet");
                    mending.next = Box::pin(sleep(TRY_AGAIN));
                }
            }
        }
    }
}

impl Open {
    fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            state: UdpSocketState::new((&socket).into())?,
            io: UdpSocket::from_std(socket)?,
            #[cfg(test)]
            broken: std::sync::atomic::AtomicBool::new(false),
        })
    }

    fn receive(&self, bufs: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        #[cfg(test)]
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        self.state.recv((&self.io).into(), bufs, meta)
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller { socket: self, waiting: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        match self.present() {
            Some(open) => {
                open.io.try_io(Interest::WRITABLE, || open.state.send((&open.io).into(), transmit))
            }
            // Lost on its way.
            None => Ok(()),
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            let Some(open) = self.present() else {
                ready!(self.poll_mended(cx))?;
                continue;
            };
            ready!(open.io.poll_recv_ready(cx))?;
            match open.io.try_io(Interest::READABLE, || open.receive(bufs, meta)) {
                Ok(count) => {
                    self.failures.store(0, Ordering::Relaxed);
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => self.failed(&error),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn may_fragment(&self) -> bool {
        self.present().is_none_or(|open| open.state.may_fragment())
    }

    fn max_transmit_segments(&self) -> usize {
        self.present().map_or(1, |open| open.state.max_gso_segments())
    }

    fn max_receive_segments(&self) -> usize {
        self.receive_segments
    }
}

/// Waits until the socket takes packets again. It holds the socket open only while it waits.
struct Poller {
    socket: Arc<Socket>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("waits", &self.waiting.is_some()).finish_non_exhaustive()
    }
}

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = Arc::clone(&self.socket);
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(writable(socket)));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(Ok(()))
    }
}

async fn writable(socket: Arc<Socket>) {
    let given_up = socket.given_up.notified();
    let Some(open) = socket.present() else { return };
    tokio::select! {
        // What is wrong with it is seen by whoever reads.
        _ = open.io.writable() => {}
        () = given_up => {}
    }
}

/// Reads that fail in a row before the socket is given up: an error that was left behind by an
/// earlier packet is told once and gone.
const FAILURES_MAX: u32 = 2;
/// How long it may take to bind it again before the node ends: until then clients and nodes wait.
const PATIENCE: Duration = Duration::from_secs(10);
const TRY_AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
