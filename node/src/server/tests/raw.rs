//! A client of bare frames, for tests that no well-behaved client can make.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaggle_client::tls;
use gaggle_wire::frame::{self, Frame, Splitter};
use gaggle_wire::{ProcessId, Request, RequestFrame, Response, ResponseFrame, VERSION};
use quinn::{ApplicationClose, Connection, ConnectionError, Endpoint, RecvStream, SendStream};

use super::*;
use crate::net::close::Close;

/// A client that says what it likes.
pub(super) struct Raw {
    pub(super) connection: Connection,
    pub(super) send: SendStream,
    pub(super) receive: RecvStream,
    splitter: Splitter,
    _endpoint: Endpoint,
}

pub(super) async fn dial(house: &House, server: &Server, alpn: &[u8]) -> (Endpoint, Connection) {
    let credentials = house.credentials(&format!("raw-{}", unique()));
    dial_from(Ipv4Addr::LOCALHOST, &credentials, server, alpn).await.unwrap()
}

/// As [`dial`], from this address of the loopback and with these credentials.
pub(super) async fn dial_from(
    own: Ipv4Addr,
    credentials: &Credentials,
    server: &Server,
    alpn: &[u8],
) -> Result<(Endpoint, Connection), ConnectionError> {
    let endpoint = Endpoint::client(SocketAddr::from((own, 0))).unwrap();
    let mut config = credentials.client_config(alpn).unwrap();
    let mut transport = quinn::TransportConfig::default();
    transport.keep_alive_interval(Some(Duration::from_millis(100)));
    config.transport_config(Arc::new(transport));
    let address = server.addresses().listen;
    let name = credentials.server_name();
    let connection = endpoint.connect_with(config, address, &name).unwrap().await?;
    Ok((endpoint, connection))
}

pub(super) fn unique() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Raw {
    pub(super) async fn dial(house: &House, server: &Server) -> Self {
        let (endpoint, connection) = dial(house, server, tls::ALPN).await;
        let (send, receive) = connection.open_bi().await.unwrap();
        let splitter = Splitter::new(frame::FRAME_LENGTH_MAX);
        Self { connection, send, receive, splitter, _endpoint: endpoint }
    }

    pub(super) async fn greeted(house: &House, server: &Server) -> Self {
        let mut raw = Self::dial(house, server).await;
        raw.ask(1, hello(VERSION), &[]).await;
        let welcome = raw.answer().await;
        assert!(matches!(welcome.body, Response::Welcome(_)));
        raw
    }

    pub(super) async fn ask(&mut self, request: u64, body: Request, contents: &[Bytes]) {
        let frame = frame::encode(&RequestFrame { request, body }, contents);
        self.send.write_all(&frame).await.unwrap();
    }

    async fn frame(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.splitter.next_frame().unwrap() {
                return frame;
            }
            let chunk = self.receive.read_chunk(64 * 1024, true).await.unwrap().unwrap();
            self.splitter.push(&chunk.bytes);
        }
    }

    /// The next answer to a request; news of the members are skipped.
    pub(super) async fn answer(&mut self) -> ResponseFrame {
        loop {
            let answer: ResponseFrame = self.frame().await.header().unwrap();
            if answer.request != 0 {
                return answer;
            }
        }
    }

    pub(super) async fn closed(&self) -> u64 {
        closed(&self.connection).await
    }
}

pub(super) async fn closed(connection: &Connection) -> u64 {
    match connection.closed().await {
        ConnectionError::ApplicationClosed(ApplicationClose { error_code, .. }) => {
            error_code.into_inner()
        }
        other => panic!("closed without a reason: {other}"),
    }
}

pub(super) fn hello(version: u16) -> Request {
    Request::Hello { version, process: ProcessId(7) }
}

pub(super) fn code(why: Close) -> u64 {
    u64::from(why.code())
}
