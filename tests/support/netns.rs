//! Nodes in network namespaces of their own: a cut that the kernel makes.
//!
//! ```text
//!   this namespace                node 0             node 1
//!   bridge 10.231.N.1/24 --veth-- 10.231.N.11  veth  10.231.N.12  ...
//! ```
//!
//! Needs root and the tools of Debian's iproute2 and iptables. Where they are missing the caller
//! is told why, and decides. Everything is named after this process, and is taken down when this
//! is dropped. What this file does not do: it starts no nodes.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

/// Namespaces that can reach each other until they are cut.
#[derive(Debug)]
pub struct Namespaces {
    tag: String,
    net: u8,
    count: usize,
}

impl Namespaces {
    /// Makes so many namespaces on one bridge.
    ///
    /// # Errors
    /// Why this machine cannot: who runs the tests is not root, or a tool is missing.
    pub fn make(count: usize) -> Result<Self, String> {
        let pid = std::process::id();
        let net = u8::try_from(pid % 250).expect("below 250");
        let made = Self { tag: format!("gg{pid}"), net, count };
        made.set_up()?;
        Ok(made)
    }

    fn set_up(&self) -> Result<(), String> {
        let bridge = self.bridge();
        run(&["ip", "link", "add", &bridge, "type", "bridge"])?;
        run(&["ip", "addr", "add", &format!("{}/24", self.ip(1)), "dev", &bridge])?;
        run(&["ip", "link", "set", &bridge, "up"])?;
        for index in 0..self.count {
            let (name, veth) = (self.name(index), format!("{}v{index}", self.tag));
            run(&["ip", "netns", "add", &name])?;
            let peer = ["peer", "name", "eth0", "netns", &name];
            run(&[&["ip", "link", "add", &veth, "type", "veth"], &peer[..]].concat())?;
            run(&["ip", "link", "set", &veth, "master", &bridge])?;
            run(&["ip", "link", "set", &veth, "up"])?;
            let address = format!("{}/24", self.ip(node_host(index)));
            run(&["ip", "-n", &name, "addr", "add", &address, "dev", "eth0"])?;
            run(&["ip", "-n", &name, "link", "set", "eth0", "up"])?;
            run(&["ip", "-n", &name, "link", "set", "lo", "up"])?;
            // Whether the kernel can filter is found out now and not in the middle of a test.
            run(&["ip", "netns", "exec", &name, "iptables", "-F", "INPUT"])?;
        }
        Ok(())
    }

    /// Where a node in this namespace listens.
    #[must_use]
    pub fn address(&self, index: usize) -> SocketAddr {
        (self.ip(node_host(index)), PORT).into()
    }

    /// What starts a program in this namespace.
    #[must_use]
    pub fn launcher(&self, index: usize) -> Vec<String> {
        ["ip", "netns", "exec", &self.name(index)].map(str::to_owned).to_vec()
    }

    /// Drops everything between these namespaces and the others, in both directions; what comes
    /// from the bridge, where the clients are, goes through.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn cut(&self, isolated: &[usize]) {
        for index in 0..self.count {
            let inside = isolated.contains(&index);
            for other in (0..self.count).filter(|other| isolated.contains(other) != inside) {
                let (name, source) = (self.name(index), self.ip(node_host(other)).to_string());
                let rule = ["iptables", "-A", "INPUT", "-s", &source, "-j", "DROP"];
                run(&[&["ip", "netns", "exec", &name], &rule[..]].concat()).expect("a rule");
            }
        }
    }

    /// Lets everything through again.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn heal(&self) {
        for index in 0..self.count {
            let name = self.name(index);
            run(&["ip", "netns", "exec", &name, "iptables", "-F", "INPUT"]).expect("no rules");
        }
    }

    fn name(&self, index: usize) -> String {
        format!("{}n{index}", self.tag)
    }

    fn bridge(&self) -> String {
        format!("{}b", self.tag)
    }

    fn ip(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 231, self.net, host)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for index in 0..self.count {
            // Some may not have been made; the links go with the namespaces and the bridge.
            let _ = run(&["ip", "netns", "del", &self.name(index)]);
        }
        let _ = run(&["ip", "link", "del", &self.bridge()]);
    }
}

/// Debian keeps both tools where the PATH of a user does not look.
fn run(words: &[&str]) -> Result<(), String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("env");
    command.arg(format!("PATH={path}:/usr/sbin:/sbin")).args(words);
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

fn node_host(index: usize) -> u8 {
    u8::try_from(11 + index).expect("few nodes")
}

const PORT: u16 = 7400;
