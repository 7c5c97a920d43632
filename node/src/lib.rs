//! placeholder
pub mod cert;
pub mod net;
