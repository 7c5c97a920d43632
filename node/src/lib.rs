//! placeholder
pub mod cert;
