//! A cluster is prepared, started, killed and started again; its nodes are scripts.

use std::time::Duration;

use super::*;
use crate::config::{ServeConfig, ServeOptions};

fn plan(dir: &Path, executable: &str) -> Plan {
    let addresses = free_addresses(2).unwrap();
    Plan { executable: executable.into(), dir: dir.join("sub"), addresses }
}

#[test]
fn a_directory_is_prepared_once_and_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path(), "/bin/true");
    let first = Cluster::prepare(plan.clone()).unwrap();
    let certificate = fs::read(&first.credential_paths().certificate).unwrap();
    let second = Cluster::prepare(plan).unwrap();
    assert_eq!(fs::read(&second.credential_paths().certificate).unwrap(), certificate);
    assert_eq!((second.len(), second.id(1)), (2, NodeId(2)));
    assert!(second.connect_options().is_ok());
}

#[test]
fn what_is_written_for_a_node_is_what_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::prepare(plan(dir.path(), "/bin/true")).unwrap();
    cluster.settings_mut(0).suspicion = Some("10s".to_owned());
    cluster.settings_mut(0).advertise = Some(cluster.address(1));
    let settings = &cluster.nodes[0].settings;
    let path = dir.path().join("x.toml");
    fs::write(&path, toml::to_string(settings).unwrap()).unwrap();
    let read = ServeConfig::load(Some(&path), ServeOptions::default()).unwrap();
    assert_eq!((read.listen, &read.data), (settings.listen, &settings.data));
    assert_eq!(read.seeds, [cluster.address(1).to_string()]);
    assert_eq!(read.times.suspicion, Some(Duration::from_secs(10)));
}

#[tokio::test]
async fn a_killed_node_is_gone_and_can_be_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("sleeper");
    // Reads its stdin until that closes, as a node does.
    fs::write(&script, "#!/bin/sh\nexec cat >/dev/null\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).unwrap();
    let mut cluster = Cluster::prepare(plan(dir.path(), script.to_str().unwrap())).unwrap();
    cluster.start_all().unwrap();
    assert!(cluster.is_running(0) && cluster.is_running(1));
    assert!(cluster.memory_peak(0).is_some_and(|bytes| bytes > 0));
    cluster.kill(0).await.unwrap();
    assert!(!cluster.is_running(0) && cluster.is_running(1));
    cluster.start(0).unwrap();
    assert!(cluster.is_running(0));
    cluster.stop_all().await.unwrap();
    assert!(!cluster.is_running(0) && !cluster.is_running(1));
}
