//! `gaggle cert`: authorities and certificates for clusters without an authority of their own.
//!
//! The making is in `crate::cert`; here it gets its arguments and says what to do with the files.

use std::path::PathBuf;

use clap::Subcommand;
use gaggle_wire::{ClientName, ClusterName, NodeId};
use serde_json::json;

use super::failure::{Exit, Failure};
use super::output;
use crate::cert::{self, CertError};

/// Make certificates: the authorities of a cluster, and what they sign.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the two authorities of a cluster, one for nodes and one for clients
    ///
    /// Keep the directory off the nodes: whoever has its keys can join the cluster.
    Init {
        /// The name of the cluster, which every certificate carries
        #[arg(long, value_name = "NAME", value_parser = ClusterName::parse)]
        name: ClusterName,
        #[command(flatten)]
        place: Place,
    },
    /// Make the certificate of a node
    Node {
        /// The id of the node: a number that no other node of the cluster ever has
        #[arg(value_name = "ID")]
        id: NodeId,
        #[command(flatten)]
        place: Place,
    },
    /// Make the certificate of a client
    Client {
        /// The name of the client
        #[arg(value_name = "NAME", value_parser = ClientName::parse)]
        name: ClientName,
        #[command(flatten)]
        place: Place,
    },
}

/// Where the files are.
#[derive(clap::Args, Debug)]
pub(crate) struct Place {
    /// The directory of the authorities and of what they sign
    #[arg(long, value_name = "DIR", default_value = "certs")]
    dir: PathBuf,
    /// Print the paths of what was made as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Init { name, place } => {
            cert::init(&place.dir, &name)
                .map_err(|error| explain("make the authorities", &error))?;
            let dir = place.dir.display();
            if place.json {
                output::object(&json!({ "cluster": name.as_str(), "dir": dir.to_string() }))?;
            } else {
                output::line(format!("the authorities of {name} are in {dir}; keep their keys"))?;
                output::line(format!("next: gaggle cert node 1 --dir {dir}"))?;
            }
        }
        Command::Node { id, place } => {
            let paths =
                cert::node(&place.dir, id).map_err(|error| explain("make the node", &error))?;
            let files = [
                ("node_ca", paths.node_ca),
                ("client_ca", paths.client_ca),
                ("certificate", paths.certificate),
                ("key", paths.key),
            ];
            show(&files, place.json, "copy these to the node and name them in its config file")?;
        }
        Command::Client { name, place } => {
            let paths = cert::client(&place.dir, &name)
                .map_err(|error| explain("make the client", &error))?;
            let files = [("ca", paths.ca), ("certificate", paths.certificate), ("key", paths.key)];
            show(
                &files,
                place.json,
                "give these to the client: gaggle://HOST?ca=..&cert=..&key=..",
            )?;
        }
    }
    Ok(Exit::Done)
}

fn show(files: &[(&str, PathBuf)], json: bool, next: &str) -> Result<(), Failure> {
    if json {
        let object = files.iter().map(|(name, path)| ((*name).to_owned(), json!(path))).collect();
        return output::object(&serde_json::Value::Object(object));
    }
    for (name, path) in files {
        output::line(format!("{name} = \"{}\"", path.display()))?;
    }
    output::note(next);
    Ok(())
}

fn explain(what: &str, error: &CertError) -> Failure {
    let (exit, remedy) = match error {
        CertError::Exists(_) => (Exit::Usage, "nothing is overwritten: choose another --dir"),
        CertError::NoAuthority(_) => (Exit::Usage, "make them with `gaggle cert init`"),
        CertError::OtherAuthority { .. } | CertError::OtherKey(_) => {
            (Exit::Usage, "restore the files that `gaggle cert init` made")
        }
        CertError::NameTaken(_) => (Exit::Usage, "choose another name"),
        CertError::Generation(_) => (Exit::Failed, "check the clock of this machine"),
        CertError::Unwritable { .. } => (Exit::Failed, "check the rights on the directory"),
    };
    Failure::new(exit, format!("cannot {what}"), error, remedy)
}
