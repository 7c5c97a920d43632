//! placeholder
pub mod tls;
