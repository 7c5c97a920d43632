//! What the certificate commands write, refuse and leave alone. Whether the certificates serve
//! in a handshake is shown in `net/tls/tests.rs`.

use super::*;

fn cluster() -> ClusterName {
    ClusterName::parse("prod").unwrap()
}

fn name(text: &str) -> ClientName {
    ClientName::parse(text).unwrap()
}

fn initialized() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path(), &cluster()).unwrap();
    dir
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Every file of a directory with its content.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn keys_are_for_their_user_alone() {
    let dir = initialized();
    let node = node(dir.path(), NodeId(1)).unwrap();
    let client = client(dir.path(), &name("billing")).unwrap();
    for key in [&dir.path().join("node-ca.key"), &dir.path().join("client-ca.key"), &node.key] {
        assert_eq!(mode(key), 0o600);
    }
    assert_eq!(mode(&client.key), 0o600);
    assert_eq!(mode(&client.certificate), 0o644);
}

#[test]
fn a_new_directory_is_for_its_user_alone() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    init(&dir, &cluster()).unwrap();
    assert_eq!(mode(&dir), 0o700);
}

#[test]
fn nothing_is_overwritten() {
    let dir = initialized();
    node(dir.path(), NodeId(1)).unwrap();
    client(dir.path(), &name("billing")).unwrap();
    let before = contents(dir.path());
    assert!(matches!(init(dir.path(), &cluster()), Err(CertError::Exists(_))));
    assert!(matches!(node(dir.path(), NodeId(1)), Err(CertError::Exists(_))));
    assert!(matches!(client(dir.path(), &name("billing")), Err(CertError::Exists(_))));
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn init_writes_nothing_if_one_file_is_there() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("client-ca.key"), "precious").unwrap();
    assert!(matches!(init(dir.path(), &cluster()), Err(CertError::Exists(_))));
    assert_eq!(contents(dir.path()).len(), 1);
}

#[test]
fn what_is_signed_carries_its_identity() {
    let dir = initialized();
    let identity = |path: &Path| {
        let certificates = tls::load_certificates(path).unwrap();
        assert_eq!(certificates.len(), 1, "a chain of one fits into the first flight");
        assert!(certificates[0].len() < 700, "{} bytes", certificates[0].len());
        tls::identity_of(&certificates[0], "here").unwrap().to_string()
    };
    let node = node(dir.path(), NodeId(7)).unwrap();
    let client = client(dir.path(), &name("billing")).unwrap();
    assert_eq!(identity(&node.certificate), "gaggle://prod/node/7");
    assert_eq!(identity(&client.certificate), "gaggle://prod/client/billing");
    assert_eq!(identity(&client.ca), "gaggle://prod/ca/node");
    assert_eq!(identity(&node.client_ca), "gaggle://prod/ca/client");
}

#[test]
fn without_an_authority_nothing_is_signed() {
    let dir = tempfile::tempdir().unwrap();
    let refused = node(dir.path(), NodeId(1)).unwrap_err();
    assert!(refused.to_string().contains("gaggle cert init"), "{refused}");
    assert!(contents(dir.path()).is_empty());
}

#[test]
fn authorities_that_were_mixed_up_sign_nothing() {
    let dir = initialized();
    for end in ["pem", "key"] {
        let [nodes, clients] = ["node-ca", "client-ca"].map(|n| dir.path().join(n));
        fs::copy(clients.with_extension(end), nodes.with_extension(end)).unwrap();
    }
    let refused = node(dir.path(), NodeId(1));
    assert!(matches!(refused, Err(CertError::OtherAuthority { .. })), "{refused:?}");
}

#[test]
fn a_key_of_another_authority_signs_nothing() {
    let dir = initialized();
    let [nodes, clients] = ["node-ca.key", "client-ca.key"].map(|n| dir.path().join(n));
    fs::copy(clients, nodes).unwrap();
    assert!(matches!(node(dir.path(), NodeId(1)), Err(CertError::OtherKey(_))));
}

#[test]
fn a_client_cannot_take_the_files_of_the_authority() {
    let dir = initialized();
    let before = contents(dir.path());
    assert!(matches!(client(dir.path(), &name("ca")), Err(CertError::NameTaken(_))));
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn a_ca_of_another_cluster_is_not_replaced() {
    let (ours, other) = (initialized(), initialized());
    let foreign = client(other.path(), &name("billing")).unwrap().ca;
    fs::copy(foreign, ours.path().join("ca.pem")).unwrap();
    assert!(matches!(client(ours.path(), &name("billing")), Err(CertError::Exists(_))));
}
