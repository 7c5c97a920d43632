//! A node that is there and says nothing: its process hangs, or the way to it is cut.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use gaggle_client_core::Target;
use quinn::Endpoint;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::certs;
use crate::ConnectOptions;
use crate::dialer::Dialer;
use crate::link::{Link, Report};

/// A node that only keeps its connection, until it is told to hang. Its socket stays open.
fn node(
    config: quinn::ServerConfig,
    bound: oneshot::Sender<SocketAddr>,
    hang: oneshot::Receiver<()>,
    end: std::sync::mpsc::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kept = runtime.block_on(async {
        let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        bound.send(endpoint.local_addr().unwrap()).unwrap();
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        hang.await.unwrap();
        (endpoint, connection)
    });
    // On one thread nothing runs any more.
    end.recv().unwrap();
    drop(kept);
}

#[tokio::test]
async fn a_node_that_falls_silent_is_left_and_one_that_has_nothing_to_say_is_not() {
    let certs = certs::make();
    let (bound, address) = oneshot::channel();
    let (hang, hangs) = oneshot::channel();
    let (end, ends) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || node(certs.server, bound, hangs, ends));
    let options = ConnectOptions::new([address.await.unwrap().to_string()], certs.client);
    let dialer = Arc::new(Dialer::new(&options).unwrap());
    let (reports, mut told) = mpsc::unbounded_channel();
    let _link = Link::dial(1, Target::Seed(0), dialer, reports);
    assert!(matches!(told.recv().await, Some(Report::Dialled(1))));
    // Longer than it takes to leave a silent one.
    let nothing = timeout(Duration::from_secs(6), told.recv()).await;
    assert!(nothing.is_err(), "it answers keep-alives, and is not left");
    hang.send(()).unwrap();
    let Some(Report::Lost(1, loss)) = told.recv().await else { panic!("it is left") };
    assert_eq!(loss.why, "the node is silent", "and not by the time that quinn allows");
    assert!(!loss.hopeless);
    end.send(()).unwrap();
    thread.join().unwrap();
}
