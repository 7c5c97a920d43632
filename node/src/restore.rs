//! A store that was put back from a copy: its node is made a new host before it is started.
//!
//! The others notice it by themselves when such a node starts, as far as one of them that has met
//! it since is there. Who announces it need not rely on that. What this file does not do: what
//! makes a new host is in the core.

use std::path::PathBuf;

use gaggle_core::Node;
use gaggle_core::config::Config;
use gaggle_core::effect::{Effect, Effects};
use gaggle_wire::NodeId;
use thiserror::Error;

use crate::clocks::Clocks;
use crate::config::ServeConfig;
use crate::driver::DriveError;
use crate::entropy;
use crate::net::tls::{CredentialsError, NodeCredentials};
use crate::store::{Change, Store, StoreOptions, supervised};

/// Why no new host was made. The store is as it was.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// Who it would be is not known.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// There is nothing to make one of.
    #[error("there is no store in {0}")]
    NoStore(PathBuf),
    /// The store cannot be opened, or what is in it cannot be read.
    #[error(transparent)]
    Store(#[from] DriveError),
}

/// Makes a new host of the node whose store this configuration names; which node that is. The node
/// must not run.
///
/// # Errors
/// See [`RestoreError`].
pub fn restore(config: &ServeConfig) -> Result<NodeId, RestoreError> {
    let node = NodeCredentials::load(&config.certificates)?.id();
    if !Store::is_in(&config.data) {
        return Err(RestoreError::NoStore(config.data.clone()));
    }
    renew(node, config)?;
    Ok(node)
}

fn renew(node: NodeId, config: &ServeConfig) -> Result<(), DriveError> {
    let options = StoreOptions { cache_bytes: config.limits.store_cache, phases: config.phases };
    let store = supervised(|| Store::open(&config.data, &options))?;
    let seed = entropy::number()?;
    let core = Config { seed, ..Config::new(node, config.listen, config.listen) };
    let now = Clocks::start().now();
    let mut opened = supervised(|| store.read_all(|rows| Node::open(core, now, rows)))??;
    let mut effects = Effects::new();
    opened.renew(&mut effects);
    let changes: Vec<Change> = effects
        .drain()
        .filter_map(|effect| match effect {
            Effect::Write(write) => Some(Change { write, content: None }),
            _ => None,
        })
        .collect();
    supervised(|| store.commit(&changes))?;
    Ok(store.close()?)
}
