//! The whole client against a fake cluster over real sockets.

mod certs;
mod consuming;
mod fake;
mod leaving;
mod sending;
mod silence;
mod status;
