//! The network of a node: one QUIC endpoint, and two protocols on it.
//!
//! Everything that touches quinn is in this folder. What it does not do: it decides nothing
//! about messages; what it reads is parsed and handed to the driver.

pub mod tls;
