//! Nodes on loopback.
