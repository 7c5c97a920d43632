//! Sockets that fail under a real endpoint on loopback.

use std::net::Ipv4Addr;

use gaggle_wire::{ClusterName, NodeId};
use quinn::{Connection, Endpoint, TokioRuntime};

use super::*;
use crate::cert;
use crate::net::tls::NodeCredentials;
use crate::net::transport::{dial_config, endpoint_config, server_config};

/// An endpoint that answers each stream with what came on it.
struct Echo {
    socket: Arc<Socket>,
    endpoint: Endpoint,
    credentials: NodeCredentials,
    _dir: tempfile::TempDir,
}

impl Echo {
    fn start(patience: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        cert::init(dir.path(), &ClusterName::parse("prod").unwrap()).unwrap();
        let paths = cert::node(dir.path(), NodeId(1)).unwrap();
        let credentials = NodeCredentials::load(&paths).unwrap();
        let bound = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let mut socket = Socket::new(bound.socket, bound.address).unwrap();
        socket.patience = patience;
        let socket = Arc::new(socket);
        let endpoint = Endpoint::new_with_abstract_socket(
            endpoint_config(dir.path()).unwrap(),
            Some(server_config(&credentials).unwrap()),
            Arc::clone(&socket) as Arc<dyn AsyncUdpSocket>,
            Arc::new(TokioRuntime),
        );
        let endpoint = endpoint.unwrap();
        tokio::spawn(serve(endpoint.clone()));
        Self { socket, endpoint, credentials, _dir: dir }
    }

    async fn dial(&self) -> (Endpoint, Connection) {
        let dialler = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let config = dial_config(&self.credentials).unwrap();
        let name = self.credentials.server_name();
        let connecting = dialler.connect_with(config, self.socket.address, &name).unwrap();
        let connection = connecting.await.unwrap();
        (dialler, connection)
    }

    /// From now on every read of the present socket fails.
    fn fail(&self) {
        self.socket.present().unwrap().broken.store(true, Ordering::Relaxed);
    }
}

async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await.unwrap();
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                let said = receive.read_to_end(100).await.unwrap();
                send.write_all(&said).await.unwrap();
                send.finish().unwrap();
            }
        });
    }
}

async fn ask(connection: &Connection, words: &[u8]) -> Vec<u8> {
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(words).await.unwrap();
    send.finish().unwrap();
    receive.read_to_end(100).await.unwrap()
}

#[tokio::test]
async fn a_socket_that_fails_is_bound_again_and_no_connection_notices() {
    let echo = Echo::start(PATIENCE);
    let (_dialler, connection) = echo.dial().await;
    assert_eq!(ask(&connection, b"before").await, b"before");
    for round in 0..3 {
        let failing = Arc::downgrade(&echo.socket.present().unwrap());
        echo.fail();
        assert_eq!(ask(&connection, b"on the way").await, b"on the way", "{round}");
        assert!(failing.upgrade().is_none(), "nobody holds the old one");
        let present = echo.socket.present().unwrap();
        assert_eq!(present.io.local_addr().unwrap(), echo.socket.address);
        let (_second, other) = echo.dial().await;
        assert_eq!(ask(&other, b"a new one").await, b"a new one");
    }
}

#[tokio::test]
async fn one_failed_read_is_chance() {
    let echo = Echo::start(PATIENCE);
    let (_dialler, connection) = echo.dial().await;
    let before = echo.socket.present().unwrap();
    echo.socket.failed(&io::ErrorKind::ConnectionRefused.into());
    assert_eq!(ask(&connection, b"a").await, b"a");
    echo.socket.failed(&io::ErrorKind::ConnectionRefused.into());
    assert_eq!(ask(&connection, b"b").await, b"b");
    assert!(Arc::ptr_eq(&before, &echo.socket.present().unwrap()));
}

#[tokio::test]
async fn a_socket_that_cannot_be_bound_again_ends_the_endpoint() {
    let echo = Echo::start(Duration::from_millis(200));
    let (_dialler, connection) = echo.dial().await;
    // As long as this one is held, the port is taken.
    let held = echo.socket.present().unwrap();
    echo.fail();
    assert!(connection.open_bi().await.unwrap().0.write_all(b"lost").await.is_ok());
    assert!(echo.endpoint.accept().await.is_none(), "the endpoint says that it is over");
    drop(held);
}
