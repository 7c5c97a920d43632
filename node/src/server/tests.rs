//! Nodes on loopback: clients that behave, clients that do not, and links between nodes.

mod disk;
mod hostile;
mod links;
mod raw;
mod rivals;
mod served;
mod stalled;
mod versions;

use std::path::Path;

use gaggle_client::ConnectOptions;
use gaggle_client::tls::Credentials;
use gaggle_wire::{ClientName, ClusterName};

use super::*;
use crate::cert;
use crate::config::ServeOptions;

/// Certificates of one cluster, and a directory for the stores of its nodes.
struct House {
    dir: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        cert::init(dir.path(), &ClusterName::parse("prod").unwrap()).unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn config(&self, id: u64, seeds: &[&Server]) -> ServeConfig {
        let paths = cert::NodePaths::in_dir(self.path(), NodeId(id));
        if !paths.key.exists() {
            cert::node(self.path(), NodeId(id)).unwrap();
        }
        let options = ServeOptions {
            data: Some(self.path().join(format!("data-{id}"))),
            listen: Some("127.0.0.1:0".parse().unwrap()),
            seeds: Some(seeds.iter().map(|seed| seed.addresses().listen.to_string()).collect()),
            standalone: Some(seeds.is_empty()),
            node_ca: Some(paths.node_ca),
            client_ca: Some(paths.client_ca),
            certificate: Some(paths.certificate),
            key: Some(paths.key),
            serve_alone_after: Some("100ms".parse().unwrap()),
            suspicion: Some("10s".parse().unwrap()),
            ..ServeOptions::default()
        };
        ServeConfig::load(None, options).unwrap()
    }

    async fn start(&self, id: u64, seeds: &[&Server]) -> Server {
        Server::start(self.config(id, seeds)).await.unwrap()
    }

    fn credentials(&self, name: &str) -> Credentials {
        let name = ClientName::parse(name).unwrap();
        Credentials::load(&cert::client(self.path(), &name).unwrap()).unwrap()
    }

    /// How the SDK reaches this node.
    fn options(&self, server: &Server, name: &str) -> ConnectOptions {
        ConnectOptions::new([server.addresses().listen.to_string()], self.credentials(name))
    }
}
