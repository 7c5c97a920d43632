//! A proxy between clients and a node that loses answers: it ends the TLS of both sides, passes
//! every frame on, and swallows every n-th answer to a send, closing the connection instead.
//!
//! The node has done what was asked and the client does not know: what follows is a resend of
//! what is stored already. What this file does not do: it damages nothing and touches no answer
//! but those to sends, so that a delivery that went astray cannot be mistaken for a duplicate.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, bail};
use gaggle_client::tls::{self, Credentials};
use gaggle_node::cert::NodePaths;
use gaggle_node::net::tls::NodeCredentials;
use gaggle_wire::frame::{FRAME_LENGTH_MAX, Splitter};
use gaggle_wire::{Response, ResponseFrame};
use quinn::{Connection, Endpoint, RecvStream, SendStream, VarInt};
use tokio::task::{AbortHandle, JoinSet};

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    swallowed: Arc<AtomicU64>,
    task: AbortHandle,
}

/// What a proxy is to be like.
#[derive(Debug)]
pub struct ProxyOptions<'a> {
    /// The node behind it.
    pub target: SocketAddr,
    /// The certificate of a node, with which it stands before clients.
    pub node: &'a NodePaths,
    /// The credentials of a client, with which it stands before the node.
    pub client: Credentials,
    /// Which answers to sends are swallowed: every so-many-th.
    pub swallow_every: u64,
}

impl Proxy {
    /// Starts a proxy.
    ///
    /// # Errors
    /// When the credentials cannot be used or there is no socket.
    pub fn start(options: &ProxyOptions<'_>) -> anyhow::Result<Self> {
        let server = NodeCredentials::load(options.node)?.server_config()?;
        let front = Endpoint::server(server, (Ipv4Addr::LOCALHOST, 0).into())?;
        let mut back = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
        back.set_default_client_config(options.client.client_config(tls::ALPN)?);
        let address = front.local_addr()?;
        let swallowed = Arc::new(AtomicU64::new(0));
        let passage = Passage {
            back,
            target: options.target,
            name: options.client.server_name(),
            every: options.swallow_every,
            seen: Arc::new(AtomicU64::new(0)),
            swallowed: Arc::clone(&swallowed),
        };
        let task = tokio::spawn(accept(front, passage)).abort_handle();
        Ok(Self { address, swallowed, task })
    }

    /// Where clients find it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many answers it has swallowed.
    #[must_use]
    pub fn swallowed(&self) -> u64 {
        self.swallowed.load(Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Passage {
    back: Endpoint,
    target: SocketAddr,
    name: String,
    every: u64,
    seen: Arc<AtomicU64>,
    swallowed: Arc<AtomicU64>,
}

async fn accept(front: Endpoint, passage: Passage) {
    let mut connections = JoinSet::new();
    while let Some(incoming) = front.accept().await {
        let passage = passage.clone();
        connections.spawn(async move {
            let Ok(client) = incoming.await else { return };
            let node = passage.back.connect(passage.target, &passage.name);
            let Ok(node) = node else { return };
            if let Ok(node) = node.await {
                // However it ends, both sides must learn of it.
                let _ = passage.carry(&client, &node).await;
                node.close(VarInt::from_u32(0), b"");
            }
            client.close(VarInt::from_u32(0), b"");
        });
    }
}

impl Passage {
    async fn carry(&self, client: &Connection, node: &Connection) -> anyhow::Result<()> {
        let mut pipes: JoinSet<anyhow::Result<()>> = JoinSet::new();
        loop {
            tokio::select! {
                opened = client.accept_bi() => {
                    let (to_client, mut from_client) = opened?;
                    let (mut to_node, from_node) = node.open_bi().await?;
                    pipes.spawn(async move {
                        copy(&mut from_client, &mut to_node).await
                    });
                    pipes.spawn(self.clone().answers(from_node, to_client));
                }
                reason = node.closed() => bail!(reason),
                Some(ended) = pipes.join_next() => ended??,
            }
        }
    }

    /// Passes answers on, frame by frame; an error is the swallowing of one.
    async fn answers(self, mut from: RecvStream, mut to: SendStream) -> anyhow::Result<()> {
        let mut prefix = [0; 4];
        loop {
            if from.read_exact(&mut prefix).await.is_err() {
                // An error means that the client has gone already.
                let _ = to.finish();
                return Ok(());
            }
            let length = u32::from_be_bytes(prefix) as usize;
            if length > FRAME_LENGTH_MAX {
                bail!("a frame of {length} bytes");
            }
            let mut frame = prefix.to_vec();
            frame.resize(4 + length, 0);
            from.read_exact(&mut frame[4..]).await?;
            if is_sent(&frame)? && self.seen.fetch_add(1, Relaxed) % self.every == self.every - 1 {
                self.swallowed.fetch_add(1, Relaxed);
                bail!("swallowed");
            }
            to.write_all(&frame).await?;
        }
    }
}

async fn copy(from: &mut RecvStream, to: &mut SendStream) -> anyhow::Result<()> {
    while let Some(chunk) = from.read_chunk(READ_MAX, true).await? {
        to.write_all(&chunk.bytes).await?;
    }
    to.finish()?;
    Ok(())
}

fn is_sent(bytes: &[u8]) -> anyhow::Result<bool> {
    let mut splitter = Splitter::new(FRAME_LENGTH_MAX);
    splitter.push(bytes);
    let frame = splitter.next_frame()?.context("a whole frame was read")?;
    Ok(matches!(frame.header::<ResponseFrame>()?.body, Response::Sent(_)))
}

/// As much as comes in one go.
const READ_MAX: usize = 64 * 1024;
